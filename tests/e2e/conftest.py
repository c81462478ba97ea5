"""What every end-to-end test may ask for."""

import pytest

from tests.e2e.session import alice, bob, cluster, laws, live_watch, numbers, parts, playground, testbed
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
    "testbed",
    "watched",
]


def pytest_configure(config: pytest.Config) -> None:
    """A broken law ends the session; of a test that fails, its cluster's logs are kept."""
    outcome.load(config)
    config.pluginmanager.register(budgets)
