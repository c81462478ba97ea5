"""A plugin of pytest that writes down what fell: ``pytest -p tests.running.outcome --outcome=FILE``."""

from pathlib import Path

import msgspec
import pytest

OPTION = "--outcome"


class Played(msgspec.Struct, frozen=True):
    """What became of a run's tests.

    Args:
        fallen: tests that failed or whose set-up or tear-down did, without their file; each once.
        skipped: how many were.
    """

    fallen: tuple[str, ...]
    skipped: int


def arguments(file: Path) -> list[str]:
    """Of the command line, so that it is written there."""
    return ["-p", "tests.running.outcome", f"{OPTION}={file}"]


def read(file: Path) -> Played | None:
    """What was written; None where pytest did not get so far."""
    return msgspec.json.decode(file.read_bytes(), type=Played) if file.exists() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write."""
    parser.addoption(OPTION, type=Path, help="a file for what fell, as JSON")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write it."""
    file: Path | None = terminalreporter.config.getoption(OPTION)
    if file is None:
        return
    stats = terminalreporter.stats
    reports = [report for kind in ("failed", "error") for report in stats.get(kind, ())]
    fallen = {report.nodeid.partition("::")[2] or report.nodeid: None for report in reports}
    file.write_bytes(msgspec.json.encode(Played(tuple(fallen), len(stats.get("skipped", ())))))
