"""An overloaded API server refuses every call alike: that does not count against one victim (law L3)."""

from cluster.kube.errors import Refusal, Request, refused
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster


def test_law_l3_an_overload_does_not_make_another_pod_the_victim(cluster: FakeCluster) -> None:
    overload = Refusal(
        code=429, message="Too many requests, please try again later.", retry_after=1, is_status=False
    )
    cluster.evictor.failing += [refused(Request("POST", "/"), overload)] * 6
    cluster.reconcile()
    planned = cluster.kept()
    for _ in range(8):
        cluster.after(1.5)
    assert cluster.kept() == planned
    assert cluster.evicted() == ["b3"]
    assert cluster.evictor.withdrawn == []
