"""What docs/troubleshooting.md names is there; every link of a document leads to an existing heading."""

import re

import msgspec

from booking.server.web import problems
from booking.server.web.problems import Kind
from cluster import event_reasons, names
from docs.tables.markdown import ROOT
from docs.tables.parts import PARTS
from tests.architecture.checkout import MANUAL

TEXT = (ROOT / "docs" / "troubleshooting.md").read_text()
SHIPPED = "".join(
    path.read_text()
    for package in ("booking", "cluster", "deviceplugin", "extender")
    for path in (ROOT / package).rglob("*.py")
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *MANUAL.glob("*.md")])


def test_quoted_answers_have_the_titles_of_the_code() -> None:
    quoted = [
        answer
        for document in DOCUMENTS
        for answer in re.findall(r"\b(\d{3}), \*([^*]+)\*", document.read_text())
    ]
    titles = {
        (str(kind.status.value), kind.title) for kind in vars(problems).values() if isinstance(kind, Kind)
    }
    assert len(quoted) >= 4
    assert set(quoted) <= titles


def test_the_named_log_lines_are_written_by_the_code() -> None:
    section = " ".join(TEXT.split("## Reading the logs")[1].split())
    lines = re.findall(r"`([a-z ]+)`", section.partition("one line: ")[2].partition(". What")[0])
    assert len(lines) >= 7
    assert [line for line in lines if f'"{line}"' not in SHIPPED] == []


def test_the_named_messages_of_logs_and_probes_are_written_by_the_code() -> None:
    for message in ("the webhook is not installed", "have not been read yet"):
        assert message in TEXT
        assert message in SHIPPED


def test_the_named_settings_exist() -> None:
    known = {names.setting(field.name) for part in PARTS for field in msgspec.structs.fields(part.settings)}
    assert set(re.findall(rf"{names.SETTINGS_PREFIX}[A-Z_]+", TEXT)) <= known


def test_the_named_keys_and_objects_of_ours_exist() -> None:
    ours = {value for value in vars(names).values() if isinstance(value, str)}
    assert set(re.findall(rf"{re.escape(names.STATE_DOMAIN)}/[a-z-]+", TEXT)) <= ours
    assert set(re.findall(r"`(gpu-(?:booking|node)-[a-z-]*)`", TEXT)) <= ours
    assert set(re.findall(r"event `(\w+)`(?: or `(\w+)`)?", TEXT)) <= {
        ("FailedScheduling", ""),
        (event_reasons.COMEBACK_DROPPED, event_reasons.COMEBACK_REFUSED),
    }
