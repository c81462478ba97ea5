"""What every test on a whole cluster may ask for; each file has a cluster of its own (`make test-long`)."""

import pytest

from tests.e2e.session import alice, bob, cluster, laws, live_watch, numbers, parts, playground, testbed
from tests.e2e.watching import watched
from tests.running import outcome

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
