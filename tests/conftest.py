"""For all tests: properties are not judged by a busy machine's clock; what takes longest begins first."""

from collections.abc import Generator
from typing import Final

import pytest
import stamina
from hypothesis import HealthCheck, settings

from tests.clusters import remove_left_behind
from tests.leftovers import ELSEWHERE, Leftovers

pytest.register_assert_rewrite("tests.contracts")  # their failures say what was, like those of test modules
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], stateful_step_count=200
)
settings.register_profile("landing", settings.get_profile("any machine"), derandomize=True)
settings.register_profile("soak", settings.get_profile("any machine"), stateful_step_count=10_000)
settings.load_profile("any machine")

LONGEST_FIRST = ("e2e", "controlplane")
AS_OFTEN: Final = 100
"""More attempts than anybody makes: theirs are what they are."""


def pytest_configure(config: pytest.Config) -> None:
    """No process of a unit test outlives it."""
    config.pluginmanager.register(Leftovers(), "leftovers")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Clusters of runs that were killed still run: nobody else would end them."""
    if not hasattr(session.config, "workerinput"):
        remove_left_behind()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A unit test's server does not recover by being waited for: what is tried again is tried at once."""
    if any(item.get_closest_marker(mark) for mark in ELSEWHERE):
        return (yield)
    with stamina.set_testing(True, attempts=AS_OFTEN, cap=True):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers end together if the long modules are not the last; within each kind the order is random."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    marked = [place for place, name in enumerate(LONGEST_FIRST) if item.get_closest_marker(name)]
    return marked[0] if marked else len(LONGEST_FIRST)
