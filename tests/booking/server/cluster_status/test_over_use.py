"""People learn which pod uses more of a GPU than its share, and what becomes of it."""

import pytest

from booking.eviction.settings import EvictionSettings
from booking.principals import Principal
from booking.server.cluster_status.snapshot import take
from booking.server.cluster_status.viewer import Viewer
from booking.server.cluster_status.why import why_of
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.device_usage import NodeUsage, OverUser, encode_use
from tests.fakes.objects import EPOCH, a_lease, a_node, a_pod, shared_gpu

ALICE = Viewer(Principal(user="alice", name="alice"), "load")
GPU = "GPU-n0-0"


@pytest.mark.parametrize("evicts", [False, True])
def test_why_says_how_much_too_much_it_uses_and_whether_it_must_go(*, evicts: bool) -> None:
    clock = FakeClock(EPOCH)
    cache = ClusterCache(clock)
    pod = a_pod("train").of("alice").shares(memory=8192).on("n0", {"main": (GPU,)}).obj
    over = OverUser(device=GPU, uid=pod.metadata.uid, used=9000, limit=8192)
    use = encode_use(NodeUsage(at=EPOCH, over_users=(over,)))
    cache.of(NODES).upsert(a_node("n0", shared_gpu(0)))
    cache.of(LEASES).upsert(a_lease("n0", use=use))
    cache.of(PODS).upsert(pod)
    snapshot = take(cache, clock, EvictionSettings(evicts_over_users=evicts))
    because = why_of(pod, snapshot, ALICE).because
    assert any("uses 9000 MiB" in message and "8192 MiB" in message for message in because)
    assert any("are evicted for that" in message for message in because) is evicts
    assert cache.over_used == {"n0": use}
    cache.of(LEASES).upsert(a_lease("n0", use=encode_use(NodeUsage(at=EPOCH))))
    assert cache.over_used == {}
