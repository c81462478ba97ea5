"""What docs/troubleshooting.md names is there; every link of a document leads to a heading that there is."""

import re
from pathlib import Path

import msgspec
import pytest

from booking.web import problems
from booking.web.problems import Kind
from cluster import names
from docs.tables.markdown import ROOT
from docs.tables.parts import PARTS
from tests.fakes.headings import anchors

TEXT = (ROOT / "docs" / "troubleshooting.md").read_text()
SHIPPED = "".join(
    path.read_text()
    for package in ("booking", "cluster", "deviceplugin", "extender")
    for path in (ROOT / package).rglob("*.py")
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([\w./-]*)#([^)\s]+)\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_link_to_a_heading_leads_to_one(document: Path) -> None:
    lost = [
        f"{target}#{heading}"
        for target, heading in LINK.findall(document.read_text())
        if heading not in anchors((document.parent / target if target else document).read_text())
    ]
    assert not lost


def test_an_answer_that_is_quoted_has_that_title() -> None:
    quoted = re.findall(r"\b(\d{3}), \*([^*]+)\*", TEXT)
    titles = {
        (str(kind.status.value), kind.title) for kind in vars(problems).values() if isinstance(kind, Kind)
    }
    assert len(quoted) >= 2
    assert set(quoted) <= titles


def test_the_lines_of_the_log_that_are_named_are_written() -> None:
    said = " ".join(TEXT.split("## Reading the logs")[1].split())
    lines = re.findall(r"`([a-z ]+)`", said.partition("one line: ")[2].partition(". What")[0])
    assert len(lines) >= 7
    assert [line for line in lines if f'"{line}"' not in SHIPPED] == []


def test_the_messages_of_logs_and_probes_that_are_named_are_written() -> None:
    for message in ("the webhook is not installed", "have not been read yet"):
        assert message in TEXT
        assert message in SHIPPED


def test_settings_that_are_named_are_there() -> None:
    known = {names.setting(field.name) for part in PARTS for field in msgspec.structs.fields(part.settings)}
    assert set(re.findall(rf"{names.SETTINGS_PREFIX}[A-Z_]+", TEXT)) <= known


def test_keys_and_objects_of_ours_that_are_named_are_there() -> None:
    ours = {value for value in vars(names).values() if isinstance(value, str)}
    assert set(re.findall(rf"{re.escape(names.STATE_DOMAIN)}/[a-z-]+", TEXT)) <= ours
    assert set(re.findall(r"`(gpu-(?:booking|node)-[a-z-]*)`", TEXT)) <= ours
    assert set(re.findall(r"event `(\w+)`(?: or `(\w+)`)?", TEXT)) <= {
        ("FailedScheduling", ""),
        (names.COMEBACK_DROPPED, names.COMEBACK_REFUSED),
    }
