"""A pytest plugin that writes a line of JSON with the outcome of each test, for the bundle's report."""

import json
import os
from pathlib import Path
from typing import Any, Final

FILE: Final = "TEST_REPORT"
"""The variable that names the file."""
_WORDS: Final = {"passed": "right", "failed": "wrong", "skipped": "not tested"}


def pytest_runtest_logreport(report: Any) -> None:
    """Called by pytest for each phase of a test: the call counts, and whatever does not pass around it."""
    if report.when != "call" and report.outcome == "passed":
        return
    line = {
        "name": report.location[2].removeprefix("test_").replace("_", " "),
        "outcome": _WORDS[report.outcome],
        "seconds": report.duration,
        "why": _why(report),
    }
    with Path(os.environ[FILE]).open("a") as file:
        file.write(f"{json.dumps(line)}\n")


def _why(report: Any) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "").strip().partition("\n")[0]
