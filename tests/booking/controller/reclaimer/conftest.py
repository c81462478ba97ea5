"""The cluster that most tests of the reclaimer begin with; modules with another one define their own."""

import pytest

from tests.booking.controller.reclaimer.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's booked pod waits; bob's four have all A100s, ``b3`` has worked least."""
    return FakeCluster().contended()
