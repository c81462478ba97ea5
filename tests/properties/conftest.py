"""Long histories: played once per machine, and reported at the end of the run with their seeds."""

import logging
from collections.abc import Callable, Iterator

import pytest
import structlog

from tests.properties import history
from tests.properties.history import SEED, Machine

PROPERTY = "history"


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Nobody reads what the parts log through ten thousand steps."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.fixture
def play(record_property: Callable[[str, object], None]) -> Callable[..., int]:
    """Play a history as long as the profile says, or so many times as long; the number of its steps."""

    def played(kind: type[Machine], times: int = 1) -> int:
        done = history.play(kind, steps=times * history.length())
        record_property(
            PROPERTY, f"{kind.__name__}: {done.steps} steps without a broken law, {SEED}={done.seed}"
        )
        return done.steps

    return played


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which histories were played."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == PROPERTY:
                terminalreporter.write_line(str(value))
