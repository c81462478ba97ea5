"""In all tests: no property is judged by a busy machine's clock; the longest begin first; seeds are shown."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from devcluster import limits
from devcluster.errors import ClusterError
from devcluster.machine import remove_left_behind
from tests.components import has_none, is_misplaced
from tests.leftovers import Leftovers, adopt_orphans
from tests.running.turn import starts_clusters, turn

pytest.register_assert_rewrite("tests.contracts")  # their failures say what was, like those of test modules
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], stateful_step_count=200
)
settings.register_profile("landing", settings.get_profile("any machine"), derandomize=True)
settings.register_profile("soak", settings.get_profile("any machine"), stateful_step_count=10_000)
settings.load_profile("any machine")

LONGEST_FIRST = ("e2e", "controlplane")
LONG_MODULES = (
    "tests/browser/test_booking.py",
    "tests/browser/test_demo.py",
    "tests/browser/test_pages.py",
    "tests/charts/test_rendered.py",
    "tests/deviceplugin/test_agent_process.py",
    "tests/fairness/test_invariants.py",
    "tests/scenarios/test_gangs.py",
    "tests/scenarios/test_serving.py",
    "tests/scenarios/test_shares_of_many.py",
)
"""Each is played by one worker: at the end of a run it would leave the other one without work."""
SEEDS = ("--randomly-seed", "--hypothesis-seed")
HISTORIES = "HISTORY_SEED"


def pytest_configure(config: pytest.Config) -> None:
    """No process of a unit test outlives it."""
    adopt_orphans()
    config.pluginmanager.register(Leftovers(), "leftovers")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Runs that start clusters take turns; each begins by removing those whose owners are dead."""
    if not starts_clusters(session):
        return (yield)
    with turn("pytest", session.config.get_terminal_writer().line):
        remove_left_behind(session.config.get_terminal_writer().line)
        with contextlib.suppress(ClusterError):  # each test that starts one reports it
            limits.ensure(session.config.get_terminal_writer().line)
        return (yield)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules without such a test are not imported by a run of component tests."""
    return True if config.option.markexpr == "component" and has_none(collection_path) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers end together if the long modules are not the last; within each kind the order is random."""
    items.sort(key=_rank)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """A component test that a run of these alone would not find is not played by any."""
    if is_misplaced(item):
        raise pytest.UsageError(f"{item.path} has a component test: name it in tests/components.py")


def _rank(item: pytest.Item) -> tuple[int, bool]:
    marked = [place for place, name in enumerate(LONGEST_FIRST) if item.get_closest_marker(name)]
    is_long = item.nodeid.split("::")[0] in LONG_MODULES
    return (marked[0] if marked else len(LONGEST_FIRST)), not is_long


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what plays the same order and the same examples again."""
    given = {name: config.getoption(name, None) for name in SEEDS}
    seeds = [f"{name}={seed}" for name, seed in given.items() if seed is not None]
    seeds += [f"{HISTORIES}={os.environ[HISTORIES]}"] if HISTORIES in os.environ else []
    if seeds:
        terminalreporter.write_line(f"seeds: {' '.join(seeds)}")
