"""What tests of tests/e2e take, next to what they state that they take: a plugin of pytest.

It is said and no failure: how long anything takes on a noisy machine says nothing about the product.
"""

from collections.abc import Mapping
from typing import Final

import pytest

MARK: Final = "budget"
_STATED: Final = pytest.StashKey[dict[str, float]]()


def over(took: Mapping[str, float], stated: Mapping[str, float]) -> list[str]:
    """A sentence for each test that took longer than it states.

    Args:
        took: test -> seconds.
        stated: test -> seconds, of those that state any.
    """
    return [
        f"over its budget: {test} took {took[test]:.0f} s of {seconds:.0f} s (docs/testing.md)"
        for test, seconds in stated.items()
        if took.get(test, 0) > seconds
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remember what is stated."""
    marks = ((item.nodeid, item.get_closest_marker(MARK)) for item in items)
    config.stash[_STATED] = {test: float(mark.args[0]) for test, mark in marks if mark}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say who took longer: the test alone, without what it shares with others."""
    calls = (report for report in terminalreporter.getreports("passed") if report.when == "call")
    took = {report.nodeid: report.duration for report in calls}
    for line in over(took, terminalreporter.config.stash.get(_STATED, {})):
        terminalreporter.write_line(line)
