"""What is printed for people and programs."""

import io
import json
import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
import yaml
from click.testing import CliRunner

from booking.cli.output import Column, Format, Row, local, localized, short, show, span, table
from booking.cli.progress import patiently
from tests.booking.cli.conftest import Screen

ROWS: list[Row] = [
    {"id": "b-1", "user": "alice", "gpus": None},
    {"id": "b-22", "user": "bob\x1b[2J", "gpus": 4},
]
COLUMNS = (
    Column("ID", lambda r: r["id"]),
    Column("USER", lambda r: r["user"]),
    Column("GPUS", lambda r: r["gpus"], wide=True),
)


def printed(form: Format) -> str:
    with CliRunner().isolation() as (out, *_):
        show({"rows": ROWS}, ROWS, COLUMNS, output=form, name=lambda r: f"row/{r['id']}", empty="Nothing.")
        return out.getvalue().decode()


def test_columns_are_under_their_titles_and_foreign_text_draws_nothing() -> None:
    assert table(ROWS, COLUMNS).splitlines() == [
        "ID     USER      GPUS",
        "b-1    alice     -",
        "b-22   bob?[2J   4",
    ]


def test_names_give_way_where_a_table_is_too_wide() -> None:
    columns = (
        Column("ID", lambda r: r["id"]),
        Column("MODEL", lambda _: "NVIDIA-A100-SXM4-80GB", may_be_cut=True),
        Column("POD", lambda _: "vision/a-notebook-with-a-long-name-0", may_be_cut=True),
    )
    cut = table(ROWS, columns, 40).splitlines()
    assert {len(line) for line in cut[1:]} == {40}
    assert cut[1] == "b-1   NVIDIA-A100-SXM…  vision/a-notebo…"
    assert max(map(len, table(ROWS, columns, 10).splitlines())) == 4 + 8 + 8 + 2 * 2
    assert "vision/a-notebook-with-a-long-name-0" in table(ROWS, columns)


def test_cells_have_colours_only_where_they_are_wanted() -> None:
    columns = (Column("ID", lambda r: r["id"], colour=lambda r: "red" if r["user"] == "alice" else None),)
    assert table(ROWS, columns, is_coloured=True).splitlines()[1:] == ["\x1b[31mb-1\x1b[0m", "b-22"]
    assert "\x1b" not in table(ROWS, columns)


def test_a_summary_comes_first_and_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    arguments = {"output": "table", "name": str, "empty": "", "summary": "2 rows."}
    show({}, ROWS, COLUMNS, **arguments)
    assert screen.getvalue().splitlines()[:2] == ["2 rows.", "ID     USER"]
    assert "GPUS" not in printed("table").splitlines()[0]


def test_near_times_are_short_and_others_have_their_year() -> None:
    now = datetime(2026, 11, 24, tzinfo=UTC)
    assert short("2026-12-01T09:00:00Z", ZoneInfo("UTC"), now) == "Tue 01 Dec 09:00"
    assert short("2027-01-01T09:00:00Z", ZoneInfo("UTC"), now) == "Fri 2027-01-01 09:00"


def test_wide_shows_every_column_and_a_table_only_the_important_ones() -> None:
    assert "GPUS" in printed("wide")
    assert "GPUS" not in printed("table")


def test_programs_get_all_fields() -> None:
    assert json.loads(printed("json")) == {"rows": ROWS}
    assert yaml.safe_load(printed("yaml")) == {"rows": ROWS}
    assert printed("name") == "row/b-1\nrow/b-22\n"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "under 1min"),
        (59, "under 1min"),
        (60, "1min"),
        (3661, "1h 1min"),
        (200000, "2d 7h"),
        (86400, "1d"),
    ],
)
def test_a_length_is_printed_in_its_two_largest_units(seconds: float, expected: str) -> None:
    assert span(seconds) == expected


def test_an_instant_is_printed_in_the_time_zone_of_the_site() -> None:
    assert local("2026-07-01T07:00:00Z", ZoneInfo("Europe/Stockholm")) == "Wed 2026-07-01 09:00"


def test_no_progress_is_shown_without_a_terminal_or_for_a_quick_command() -> None:
    for stream in (io.StringIO(), Screen()):
        with patiently("booking", stream):
            pass
        assert stream.getvalue() == ""


def test_instants_in_a_message_of_the_server_are_printed_in_the_time_zone_of_the_site() -> None:
    stockholm = ZoneInfo("Europe/Stockholm")
    message = "It runs until 2026-07-01 07:00 UTC, and 2026-07-01 is a day."
    assert (
        localized(message, lambda: stockholm)
        == "It runs until Wed 2026-07-01 09:00 CEST, and 2026-07-01 is a day."
    )


def test_a_message_without_an_instant_does_not_need_the_zone() -> None:
    assert localized("No.", lambda: ZoneInfo("No/Where")) == "No."


def test_progress_is_shown_after_a_second_and_erased_at_the_end() -> None:
    stream = Screen()
    with patiently("waiting for the server", stream):
        assert stream.spoke.wait(60)
    assert "\rwaiting for the server |" in stream.getvalue()
    assert stream.getvalue().endswith("\r" + " " * len("waiting for the server |") + "\r")


def test_on_a_terminal_shared_with_a_prompt_progress_is_printed_once_and_stays() -> None:
    screen = Screen()
    with patiently("waiting for who signs you in", screen, is_shared=True):
        assert screen.spoke.wait(60)
    assert screen.getvalue() == "\nwaiting for who signs you in\n"
    quick = Screen()
    with patiently("waiting for who signs you in", quick, is_shared=True):
        pass
    assert quick.getvalue() == ""
