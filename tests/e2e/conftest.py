"""What every end-to-end test may ask for."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.e2e.session import DESIGN, alice, bob, cluster, laws, live_watch, numbers, parts, playground
from tests.e2e.testbed import Testbed
from tests.e2e.watching import watched
from tests.running import budgets, outcome

__all__ = [
    "alice",
    "bob",
    "cluster",
    "laws",
    "live_watch",
    "numbers",
    "parts",
    "playground",
    "watched",
]


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    """Claims can be booked on it, and all other tests find it as if they could not."""
    bed = Testbed(replace(DESIGN, claims=True))
    try:
        yield bed
    finally:
        bed.close()


def pytest_configure(config: pytest.Config) -> None:
    """A broken law ends the session; of a test that fails, its cluster's logs are kept."""
    outcome.load(config)
    config.pluginmanager.register(budgets)
