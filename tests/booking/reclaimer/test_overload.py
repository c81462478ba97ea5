"""An API server that is overloaded refuses everybody alike: that is nothing against one victim (law L3)."""

from cluster.kube.errors import Refusal, Request, refused
from tests.booking.reclaimer.scene import Scene


def test_law_l3_an_overload_does_not_make_another_pod_the_victim() -> None:
    scene = Scene()
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    overload = Refusal(code=429, reason="TooManyRequests", message="slow down", retry_after=1)
    scene.leaving.failing += [refused(Request("POST", "/"), overload)] * 6
    scene.reconcile()
    planned = scene.kept()
    for _ in range(8):
        scene.after(1.5)
    assert scene.kept() == planned
    assert scene.evicted() == ["b3"]
    assert scene.leaving.withdrawn == []
