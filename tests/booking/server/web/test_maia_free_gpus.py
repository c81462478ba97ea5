"""How many GPUs of each model are free: what MAIA's webhook reads before it admits a pod."""

from datetime import timedelta

import pytest

from booking.server.web.maia import free_gpus
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.hold import Hold, encode_hold
from tests.fakes.objects import A100, A6000, a100, a6000, a_lease, a_node, a_pod


class Seen:
    """A cache of nodes whose agents are alive."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cache = ClusterCache(self.clock)
        self.cache.of(NODES).upsert(a_node("n0", a100(0), a100(1), a6000(2)))
        self.cache.of(NODES).upsert(a_node("n1", a100(0, "n1")))
        self.renew_leases("n0", "n1")

    def renew_leases(self, *nodes: str, version: int = 1, stopping: bool = False) -> None:
        for node in nodes:
            lease = a_lease(node, renewed=self.clock.now(), version=version, stopping=stopping)
            self.cache.of(LEASES).upsert(lease)

    def on(self, node: str, *devices: str, asks: int = 1) -> None:
        pod = a_pod(f"p-{node}").of("alice").asks(max(asks, len(devices)))
        self.cache.of(PODS).upsert(pod.on(node, {"main": devices} if devices else None).obj)

    def free(self, *cordoned: str) -> dict[str, int]:
        return free_gpus(self.cache.node_snapshots(), cordoned)


def test_free_gpus_are_added_up_over_the_nodes_by_model() -> None:
    assert Seen().free() == {A100: 3, A6000: 1}


def test_a_gpu_that_is_held_for_a_booked_pod_is_not_free() -> None:
    seen = Seen()
    hold = encode_hold(Hold(node="n0", devices=("GPU-n0-0",)))
    seen.cache.of(PODS).upsert(a_pod("waits").of("alice").asks(1).with_annotation(names.HOLD, hold).obj)
    assert seen.free() == {A100: 2, A6000: 1}


def test_on_a_cordoned_node_nothing_is_free_although_its_models_are_listed() -> None:
    assert Seen().free("n0") == {A100: 1, A6000: 0}


@pytest.mark.parametrize("is_stopping", [True, False])
def test_l6_nothing_is_free_on_a_node_whose_agent_is_unresponsive_or_has_stopped(
    *, is_stopping: bool
) -> None:
    seen = Seen()
    if is_stopping:
        seen.renew_leases("n0", version=2, stopping=True)
    else:
        seen.clock.advance(timedelta(seconds=76).total_seconds())
        seen.renew_leases("n1", version=2)
    assert seen.free() == {A100: 1, A6000: 0}


def test_l6_a_pod_whose_devices_are_unknown_may_hold_any_of_them() -> None:
    seen = Seen()
    seen.on("n0", asks=2)
    assert seen.free() == {A100: 1, A6000: 0}
