"""Booking, changing and ending bookings by the command line."""

import json
from typing import Any, Final

import pytest
import yaml

from booking.cli import server_connection
from booking.server.capacity.capacity import Capacity
from tests.booking.cli.conftest import Terminal
from tests.fakes.objects import A100, A6000


def booked(
    terminal: Terminal, *words: str, user: str = "alice", length: tuple[str, ...] = ("--for", "2d")
) -> str:
    """The id of a new booking."""
    output = terminal.says("book", A100, *length, "-o", "name", *words, user=user).strip()
    assert output.startswith("booking/")
    return output.removeprefix("booking/")


def test_a_booking_can_be_made_with_a_part_of_the_models_name(terminal: Terminal) -> None:
    output = terminal.says("book", "a6000", "--from", "tue 09:00", "--for", "2d")
    assert output.startswith("Booked as b-")
    assert f"1 x {A6000} from Tue 2026-03-03 09:00 to Thu 2026-03-05 09:00 (UTC)." in output
    assert terminal.served.stored == 1


def test_a_dry_run_shows_the_same_and_stores_nothing(terminal: Terminal) -> None:
    output = terminal.says("book", "a6000", "--from", "tue 09:00", "--for", "2d", "--dry-run")
    assert (
        output
        == f"This would be booked: 1 x {A6000} from Tue 2026-03-03 09:00 to Thu 2026-03-05 09:00 (UTC).\n"
    )
    assert terminal.served.stored == 0


def test_all_errors_are_reported_with_what_would_be_accepted(terminal: Terminal) -> None:
    stderr = terminal.fails("book", A100, "--gpus", "9", "--for", "15d")
    assert "9 GPUs of model" in stderr
    assert "A booking lasts at most 14 days" in stderr
    assert terminal.served.stored == 0


def test_the_end_must_be_given_exactly_once(terminal: Terminal) -> None:
    for words in ((), ("--to", "fri", "--for", "2d")):
        assert "--to, or how long with --for" in terminal.fails("book", A100, *words, status=2)


def test_an_unreadable_time_is_refused_before_any_request(terminal: Terminal) -> None:
    stderr = terminal.fails("book", A100, "--from", "soonish", "--for", "2d", status=2)
    assert "'soonish' is not a time: write for example" in stderr


def test_bookings_are_listed_with_the_time_that_is_left(terminal: Terminal) -> None:
    identifier = booked(terminal)
    titles, row = terminal.says("bookings").splitlines()
    assert titles.split()[:4] == ["ID", "MODEL", "GPUS", "STATE"]
    assert row.split()[:4] == [identifier, A100, "1", "active"]
    assert "2d" in row
    assert terminal.says("bookings", user="bob") == ""


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_the_servers_answer(terminal: Terminal, form: str, read: object) -> None:
    assert callable(read)
    identifier = booked(terminal)
    assert [each["id"] for each in read(terminal.says("bookings", "-o", form))["bookings"]] == [identifier]
    assert read(terminal.says("bookings", identifier, "-o", form))["model"] == A100


def test_a_booking_is_extended_shortened_and_released(terminal: Terminal) -> None:
    identifier = booked(terminal)
    assert "to Thu 2026-03-05 09:00" in terminal.says("extend", identifier, "--by", "1d")
    assert "to Wed 2026-03-04 09:00" in terminal.says("extend", identifier, "--to", "wed 09:00")
    assert terminal.says("release", identifier).startswith(f"Released {identifier}.\n")
    assert terminal.says("bookings") == ""
    assert "ended" in terminal.says("bookings", "--past")


def test_a_booking_is_shortened_by_a_length(terminal: Terminal) -> None:
    identifier = booked(terminal, "--to", "fri 09:00", length=())
    assert "to Thu 2026-03-05 09:00" in terminal.says("extend", identifier, "--by", "-1d")
    assert "to Thu 2026-03-05 07:00" in terminal.says("extend", identifier, "--by=-2h")


def test_a_booking_from_today_starts_now(terminal: Terminal) -> None:
    output = terminal.says("book", A100, "--from", "today", "--for", "2d")
    assert "from Mon 2026-03-02 09:00 to Wed 2026-03-04 09:00" in output


@pytest.mark.parametrize("verb", ["book", "earliest"])
def test_a_word_that_two_models_contain_names_them(terminal: Terminal, verb: str) -> None:
    stderr = terminal.fails(verb, "nvidia", "--for", "2d")
    assert f"2 models contain 'nvidia': {A100}, {A6000}." in stderr


@pytest.mark.parametrize("words", [("--url", "{}", "bookings"), ("bookings", "--url", "{}")])
@pytest.mark.parametrize("path", ["", "/", "/api/v1", "/api/v1/"])
def test_the_address_may_stand_before_or_after_the_verb_and_name_the_api(
    terminal: Terminal, words: tuple[str, ...], path: str
) -> None:
    elsewhere: dict[str, Any] = {server_connection.URL: "http://127.0.0.1:1"}
    done = terminal.run(*(word.format(terminal.url + path) for word in words), **elsewhere)
    assert done.exit_code == 0, done.output


def test_options_before_a_group_count_for_its_commands_and_later_ones_win(terminal: Terminal) -> None:
    wrong = ("--url", "http://127.0.0.1:1")
    assert "limits" in terminal.says(*wrong, "policy", "--url", terminal.url, "show", "-o", "json")


def test_a_token_that_is_not_accepted_is_named(terminal: Terminal) -> None:
    stderr = terminal.fails("bookings", user="carol")
    assert "It is the token in GPU_BOOKING_TOKEN: show another with GPU_BOOKING_TOKEN" in stderr


def test_a_missing_reason_names_its_option(terminal: Terminal) -> None:
    identifier = booked(terminal)
    terminal.served.signing_in.administrators.add("bob")
    assert "Give one with --reason." in terminal.fails("release", identifier, user="bob")


def test_a_refused_extension_does_not_change_the_booking(terminal: Terminal) -> None:
    identifier = booked(terminal)
    before = terminal.says("bookings", identifier, "-o", "json")
    assert "A booking lasts at most 14 days" in terminal.fails("extend", identifier, "--by", "20d")
    assert terminal.says("bookings", identifier, "-o", "json") == before


def test_a_planned_booking_moves_as_a_whole_and_is_cancelled(terminal: Terminal) -> None:
    identifier = booked(terminal, "--from", "tue 09:00")
    would = terminal.says("move", identifier, "--from", "fri 09:00", "--dry-run")
    assert f"{identifier} would be now: 1 x {A100} from Fri 2026-03-06 09:00 to Sun 2026-03-08 09:00" in would
    assert "from Fri 2026-03-06" in terminal.says("move", identifier, "--from", "fri 09:00")
    assert terminal.says("cancel", identifier) == f"Cancelled {identifier}.\n"


def test_nobody_can_change_a_booking_of_another_user(terminal: Terminal) -> None:
    identifier = booked(terminal)
    for words in (("extend", identifier, "--by", "1d"), ("release", identifier), ("cancel", identifier)):
        assert f"no booking '{identifier}'" in terminal.fails(*words, user="bob")


def test_the_earliest_slots_come_after_the_existing_bookings(terminal: Terminal) -> None:
    booked(terminal, "--gpus", "4", "--single-node", user="bob")
    all_of_them = ("earliest", A100, "--gpus", "8", "--any-node", "--for", "1d")
    rows = terminal.says(*all_of_them, "--after", "now").splitlines()
    assert "Wed 2026-03-04 09:00" in rows[1]
    stderr = terminal.fails(*all_of_them, "--before", "tue 12:00")
    assert "The first such slot is from Wed 2026-03-04 09:00 UTC" in stderr


def test_a_user_who_may_not_book_now_is_shown_why_instead_of_when(terminal: Terminal) -> None:
    identifier = booked(terminal)
    assert f"Your booking {identifier} runs until" in terminal.fails("earliest", A100, "--for", "1d")


def test_a_user_with_a_planned_booking_is_shown_free_times_and_what_keeps_them_from_being_booked(
    terminal: Terminal,
) -> None:
    identifier = booked(terminal, "--from", "fri 09:00")
    shown = terminal.run("earliest", A100, "--for", "1d")
    assert shown.exit_code == 0, shown.output
    assert f"Your booking {identifier} is planned" in shown.stderr
    assert "Mon 2026-03-02 09:00" in shown.stdout.splitlines()[1]
    assert f"Your booking {identifier} is planned" in terminal.fails(
        "earliest", A100, "--for", "1d", "--book"
    )


def test_an_administrator_books_for_another_user_and_ends_the_booking_with_a_reason(
    terminal: Terminal,
) -> None:
    assert (
        "administrator" in terminal.fails("book", A100, "--for", "2d", "--user", "alice", user="bob").lower()
    )
    terminal.served.signing_in.administrators.add("bob")
    identifier = booked(terminal, "--user", "alice", user="bob")
    row = terminal.says("bookings", identifier, "-o", "wide").splitlines()[1]
    assert "alice" in row
    assert "bob" in row
    terminal.says("release", identifier, "--reason", "power cut", user="bob")
    assert "power cut" in terminal.says("bookings", "--past", "-o", "wide")


def test_an_unreachable_server_has_its_own_exit_code_and_advice(terminal: Terminal) -> None:
    done = terminal.run("bookings", **{server_connection.URL: "http://127.0.0.1:1"})
    assert done.exit_code == 3
    assert "The booking server at http://127.0.0.1:1 does not answer: Failed to establish" in done.stderr
    assert "Is the address right, and is the server running?" in done.stderr


def test_an_address_without_a_booking_server_is_reported(terminal: Terminal) -> None:
    done = terminal.run("bookings", **{server_connection.URL: f"{terminal.url}/elsewhere"})
    assert done.exit_code != 0
    assert "Traceback" not in done.output


def test_without_a_token_the_command_explains_how_to_get_one(terminal: Terminal) -> None:
    without: dict[str, Any] = {server_connection.TOKEN: None}
    done = terminal.run("bookings", **without)
    assert done.exit_code == 1
    assert "There is no kubeconfig: /nowhere says nothing" in done.stderr
    assert "--token-file" in done.stderr


def test_an_unknown_user_is_shown_how_to_get_a_token(terminal: Terminal) -> None:
    assert "kubectl create token" in terminal.fails("bookings", user="carol-is-nobody")


def test_alternatives_are_shown_in_the_time_zone_of_the_site(terminal: Terminal) -> None:
    booked(terminal, "--gpus", "4", "--single-node", user="bob")
    stderr = terminal.fails("book", A100, "--gpus", "8", "--any-node", "--for", "1d")
    assert "\nEarliest valid start: Wed 2026-03-04 09:00 UTC\nWhat would be accepted:\n" in stderr
    assert f"8 x {A100} from Wed 2026-03-04 09:00 UTC to Thu 2026-03-05 09:00 UTC (later)" in stderr
    assert "(fewer GPUs)" in stderr
    assert "T09:00:00Z" not in stderr


def test_a_dry_run_for_programs_is_the_servers_answer(terminal: Terminal) -> None:
    would = json.loads(terminal.says("book", A100, "--for", "2d", "--dry-run", "-o", "json"))
    assert "id" not in would
    assert would["dry_run"] is True


def test_a_booking_gets_more_gpus_or_fewer(terminal: Terminal) -> None:
    identifier = terminal.says("book", A100, "--gpus", "2", "--for", "2d", "-o", "name").strip()
    identifier = identifier.removeprefix("booking/")
    would = terminal.says("resize", identifier, "--gpus", "3", "--dry-run")
    assert "would be" in would
    assert "3 x " in would
    assert "1 x " in terminal.says("resize", identifier, "--gpus", "1")
    assert "8" in terminal.fails("resize", identifier, "--gpus", "9")


def test_a_dry_run_of_an_end_shows_what_would_happen_and_ends_nothing(terminal: Terminal) -> None:
    identifier = booked(terminal)
    would = terminal.says("release", identifier, "--dry-run")
    assert would.startswith(f"{identifier} would be released now.\nIts bare pods end with it and come back")
    assert "is running: release it instead" in terminal.fails("cancel", identifier, "--dry-run")
    assert identifier in terminal.says("bookings")
    assert terminal.says("release", identifier).startswith(f"Released {identifier}.\n")


BY_DEFAULT: Final = (
    "Its bare pods end now and come back without a GPU. Its pods of controllers, such as Jobs, stay, but must"
    " leave whenever a booked pod needs their GPUs.\n"
)


def test_a_release_reports_what_happens_to_the_pods(terminal: Terminal) -> None:
    identifier = booked(terminal)
    would = terminal.says("release", identifier, "--dry-run")
    assert "come back without a GPU: save your work first. Its pods of controllers" in would
    assert terminal.says("release", identifier) == f"Released {identifier}.\n{BY_DEFAULT}"


@pytest.mark.parametrize(("form", "is_shown"), [("wide", True), ("name", False)])
def test_the_effect_on_pods_is_shown_to_people_and_not_to_programs(
    terminal: Terminal, form: str, *, is_shown: bool
) -> None:
    assert (BY_DEFAULT in terminal.says("release", booked(terminal), "-o", form)) is is_shown


def test_a_new_end_in_the_past_is_reported_as_a_release_and_a_later_one_is_not(terminal: Terminal) -> None:
    identifier = booked(terminal)
    assert "pods" not in terminal.says("extend", identifier, "--by", "1d")
    terminal.served.clock.advance(7200)
    assert terminal.says("extend", identifier, "--to", "2026-03-02 10:00").endswith(BY_DEFAULT)


def test_a_cancellation_does_not_mention_pods(terminal: Terminal) -> None:
    identifier = booked(terminal, "--from", "tue 09:00")
    assert terminal.says("cancel", identifier) == f"Cancelled {identifier}.\n"


def test_a_dry_run_of_the_earliest_slot_books_nothing(terminal: Terminal) -> None:
    words = ("earliest", "a6000", "--for", "2d", "--after", "tue 09:00")
    output = terminal.says(*words, "--book", "--dry-run")
    assert output.startswith(f"This would be booked: 1 x {A6000} from Tue 2026-03-03 09:00 to Thu 2026-03-05")
    assert terminal.served.stored == 0
    assert terminal.says(*words, "--dry-run") == output


def test_the_earliest_slot_is_booked_at_once(terminal: Terminal) -> None:
    booked(terminal, "--gpus", "4", "--single-node", user="bob")
    search = ("earliest", A100, "--gpus", "8", "--any-node", "--for", "1d", "--book")
    assert "is after the deadline" in terminal.fails(*search, "--before", "tue 12:00")
    assert terminal.says("bookings") == ""
    output = terminal.says(*search, "--before", "fri 12:00")
    assert output.startswith("Booked as b-")
    assert "from Wed 2026-03-04 09:00 to Thu 2026-03-05 09:00" in output


@pytest.mark.parametrize(
    ("memory", "stored", "shown"),
    [("20Gi", 20480, "20 GiB"), ("8192", 8192, "8 GiB"), ("25%", 20000, "19.5 GiB")],
)
def test_a_share_is_booked_in_gib_mib_or_percent(
    terminal: Terminal, memory: str, stored: int, shown: str
) -> None:
    terminal.served.capacity = Capacity({A100: {"node-a": 4}}, memories={A100: 80_000})
    output = terminal.says("book", "a100", "--gpus", "2", "--memory", memory, "--for", "2d")
    assert f"2 x {shown} of {A100} from" in output
    _, row = terminal.says("bookings").splitlines()
    assert f"2 x {shown}" in row
    (record,) = terminal.served.store.records_ending_after(terminal.served.clock.now())
    assert (record.count, record.memory) == (2, stored)


@pytest.mark.parametrize("memory", ["20GB", "-1Gi", "101%", "all", "1e3"])
def test_a_size_that_is_none_is_refused_before_any_booking(terminal: Terminal, memory: str) -> None:
    terminal.served.capacity = Capacity({A100: {"node-a": 4}}, memories={A100: 80_000})
    assert repr(memory) in terminal.fails("book", A100, f"--memory={memory}", "--for", "2d", status=2)
    assert terminal.served.stored == 0
