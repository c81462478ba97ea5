"""What administrators do by the command line."""

import json
from datetime import timedelta
from typing import Any

import pytest

from booking.server.store_records import Block, Exemption
from tests.booking.cli.conftest import Terminal
from tests.fakes.objects import A100, A6000


@pytest.fixture
def bob(terminal: Terminal) -> Terminal:
    """Where bob is an administrator."""
    terminal.served.signing_in.administrators.add("bob")
    return terminal


def test_maintenance_is_planned_listed_and_cancelled(bob: Terminal) -> None:
    made = json.loads(
        bob.says(
            *(
                "admin",
                "block",
                "node-a",
                "--from",
                "tue",
                "--to",
                "wed",
                "--reason",
                "new fans",
                "-o",
                "json",
            ),
            user="bob",
        )
    )
    listed = bob.says("admin", "blocks", user="bob")
    assert "Tue 03 Mar 00:00" in listed
    assert "new fans" in listed
    assert "is removed." in bob.says("admin", "unblock", made["id"], "--reason", "they run", user="bob")
    assert "they run" in bob.says("admin", "audit", user="bob")
    assert bob.says("admin", "blocks", user="bob") == ""


def test_a_block_reports_which_booking_cannot_be_kept(bob: Terminal) -> None:
    booking = bob.says("book", A6000, "--gpus", "2", "--for", "2d", "-o", "name").strip()
    stderr = bob.run("admin", "block", "node-a", "--to", "wed", "--reason", "new fans", user="bob").stderr
    assert f"At risk now: {booking.removeprefix('booking/')} of alice, 2 GPUs, " in stderr


def test_a_user_gets_other_limits_for_a_while(bob: Terminal) -> None:
    assert "14 days" in bob.fails("book", A100, "--for", "20d")
    made = bob.says(
        *("admin", "exempt", "alice", "longest=P30D", "--to", "+30d", "--reason", "thesis", "-o", "name"),
        user="bob",
    ).strip()
    assert bob.says("book", A100, "--for", "20d", "--dry-run").startswith("This would be booked")
    assert "longest=" in bob.says("admin", "exemptions", user="bob")
    assert f"{made} has ended." in bob.says("admin", "revoke", made, "--reason", "handed in", user="bob")
    assert "handed in" in bob.says("admin", "audit", user="bob")
    assert "14 days" in bob.fails("book", A100, "--for", "20d")


def test_a_limit_without_a_value_is_refused_before_any_request(bob: Terminal) -> None:
    stderr = bob.fails(
        "admin", "exempt", "alice", "longest", "--to", "fri", "--reason", "x", user="bob", status=2
    )
    assert "is not LIMIT=VALUE" in stderr


def test_the_audit_shows_who_changed_what_and_the_refusals_are_listed(bob: Terminal) -> None:
    identifier = bob.says("book", A100, "--for", "2d", "-o", "name").strip().removeprefix("booking/")
    bob.fails("book", A100, "--gpus", "9", "--for", "2d", user="bob")
    audit = bob.says("admin", "audit", user="bob")
    assert identifier in audit
    assert "alice" in audit
    assert bob.says("admin", "audit", "--of", identifier, "--by", "alice", user="bob") == audit
    assert bob.says("admin", "audit", "--by", "bob", user="bob") == ""
    assert "more-than-exist" in bob.says("admin", "denied", user="bob")


@pytest.mark.parametrize(
    "words",
    [
        ("blocks",),
        ("block", "node-a", "--to", "fri", "--reason", "x"),
        ("exemptions",),
        ("audit",),
        ("denied",),
        ("evict", "a-pod", "-n", "vision", "--reason", "x"),
        ("cordon", "node-a", "0", "--reason", "x"),
    ],
)
def test_other_users_are_refused(terminal: Terminal, words: tuple[str, ...]) -> None:
    assert "administrator" in terminal.fails("admin", *words).lower()
    assert terminal.served.stored == 0


@pytest.mark.parametrize(
    ("limit", "value"), [("max_planned=3", 3), ("may_extend=false", False), ("horizon=null", None)]
)
def test_limits_that_are_not_lengths_are_set_with_their_own_type(
    bob: Terminal, limit: str, value: object
) -> None:
    words = ("admin", "exempt", "alice", limit, "--to", "+30d", "--reason", "thesis", "--model", "a6000")
    made = json.loads(bob.says(*words, "-o", "json", user="bob"))
    assert made["limits"] == {limit.partition("=")[0]: value}
    assert made["model"] == A6000
    assert A6000 in bob.says("admin", "exemptions", user="bob")


@pytest.mark.parametrize("what", ["audit", "denied"])
def test_entries_without_an_id_are_named_by_their_number(bob: Terminal, what: str) -> None:
    bob.says("book", A100, "--for", "2d")
    bob.fails("book", A100, "--gpus", "9", "--for", "2d", user="bob")
    assert bob.says("admin", what, "-o", "name", user="bob").strip().isdecimal()


def test_all_bookings_are_listed_with_their_users_and_ones_own_without(bob: Terminal) -> None:
    bob.says("book", A100, "--for", "2d")
    assert bob.says("bookings", user="bob") == ""
    titles, row = bob.says("bookings", "-A", user="bob").splitlines()
    assert titles.split()[-1] == "USER"
    assert row.split()[-1] == "alice"
    assert "alice" in bob.says("bookings", "--user", "alice", user="bob")
    assert "Only administrators may see everybody's bookings" in bob.fails("bookings", "-A")


def test_every_action_has_an_output_for_programs_too(bob: Terminal) -> None:
    def admin(*words: str) -> str:
        return bob.says("admin", *words, user="bob")

    blocked = admin("block", "node-a", "--to", "fri", "--reason", "x", "-o", "name").strip()
    assert admin("unblock", blocked, "-o", "name") == f"{blocked}\n"
    wide = admin("exempt", "alice", "max_planned=3", "--to", "fri", "--reason", "x", "-o", "wide")
    assert wide.startswith(
        "alice has max_planned=3 from Mon 2026-03-02 09:00 to Fri 2026-03-06 00:00 (UTC): "
    )
    exemption = wide.rstrip(".\n").rpartition(" ")[2]
    assert json.loads(admin("revoke", exemption, "-o", "json"))["id"] == exemption
    evicted = admin("evict", "train-0", "-n", "research", "--reason", "x", "-o", "json")
    assert json.loads(evicted) == {"namespace": "research", "pod": "train-0", "reason": "x"}
    for verb in ("cordon", "uncordon", "clear"):
        assert admin(verb, "node-a", "0", "--reason", "x", "-o", "name") == "GPU-0\n"


def test_a_gpu_is_cordoned_given_back_and_cleared(bob: Terminal) -> None:
    output = bob.says("admin", "cordon", "node-a", "0", "--reason", "loud", user="bob")
    assert output == "GPU-0 of node-a gets no new pods.\n"
    assert "not cordoned" in bob.says("admin", "uncordon", "node-a", "GPU-0", user="bob")
    assert "probed again" in bob.says("admin", "clear", "node-a", "0", "--reason", "new card", user="bob")
    assert [(order, message) for _, _, order, message in bob.served.gpus.orders] == [
        ("cordon", "bob: loud"),
        ("uncordon", "bob: back in use"),
        ("clear", "bob: new card"),
    ]
    assert "no GPU 7" in bob.fails("admin", "clear", "node-a", "7", "--reason", "x", user="bob")


MORE_THAN_A_PAGE = 101
"""One request is answered with a hundred entries, where it does not say how many."""


def test_maintenance_and_exemptions_are_listed_to_the_last_page(bob: Terminal) -> None:
    store, now = bob.served.store, bob.served.clock.now()
    span = {"start": now, "end": now + timedelta(days=3)}
    made: dict[str, Any] = {"reason": "because", "created_by": "bob", "created": now, **span}
    names = [f"x-{number:03}" for number in range(MORE_THAN_A_PAGE)]
    for name in names:
        block = Block(id=name, node="node-a", **made)
        exemption = Exemption(id=name, user="alice", limits={"longest": "P21D"}, **made)
        store.write(lambda writing, one=block: writing.block_add(one))
        store.write(lambda writing, one=exemption: writing.exemption_add(one))
    for what in ("blocks", "exemptions"):
        assert bob.says("admin", what, "-o", "name", user="bob").split() == names
        assert len(json.loads(bob.says("admin", what, "-o", "json", user="bob"))[what]) == len(names)
