"""Samples of shares: what says nothing new is not kept, and nothing is kept longer than a day."""

import pytest

from booking.eviction.settings import EvictionSettings
from booking.policy.fair_shares import FairShares
from booking.server.cluster_status.share_history import ShareHistory
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from tests.fakes.objects import A100, EPOCH, a100, a_lease, a_node, a_pod

HOUR = 3600


class Sampled:
    """A node with two GPUs, of which bob's pods have some."""

    def __init__(self) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.unready: str | None = None
        self.history = ShareHistory(
            self.cache,
            self.clock,
            EvictionSettings(),
            unready_reason=lambda: self.unready,
            fair_shares=FairShares,
        )
        self.cache.of(NODES).upsert(a_node("n0", a100(0), a100(1)))

    def hold(self, name: str, index: int) -> None:
        self.cache.of(PODS).upsert(a_pod(name).of("bob").asks(1).on("n0", {"main": (f"GPU-n0-{index}",)}).obj)

    def after(self, hours: float) -> list[tuple[float, int]]:
        """The samples then: hours from the beginning, and how many GPUs bob held."""
        self.clock.advance(hours * HOUR)
        self.cache.of(LEASES).upsert(a_lease("n0", renewed=self.clock.now()))
        self.history.reconcile()
        found = self.history.samples().get(A100, ())
        return [((one.at - EPOCH).total_seconds() / HOUR, sum(one.held.values())) for one in found]


@pytest.fixture
def sampled() -> Sampled:
    return Sampled()


def test_only_what_is_new_is_kept_and_the_oldest_is_what_the_day_began_with(sampled: Sampled) -> None:
    assert sampled.after(0) == []
    sampled.hold("b0", 0)
    assert sampled.after(1) == sampled.after(1) == [(1, 1)]
    sampled.hold("b1", 1)
    assert sampled.after(20) == [(1, 1), (22, 2)]
    assert sampled.after(5) == [(1, 1), (22, 2)]
    assert sampled.after(20) == [(22, 2)]


def test_nothing_is_sampled_while_the_cluster_is_not_known(sampled: Sampled) -> None:
    sampled.hold("b0", 0)
    sampled.unready = "the watch is old"
    assert sampled.after(1) == []
