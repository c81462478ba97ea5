"""The cache of rejected pods: what a watch reports late, twice or not at all."""

from typing import Any

import msgspec
import pytest

from booking.controller.reclaimer.evictions.failed_pod_cache import FailedPodCache
from cluster.fake.clock import FakeClock
from cluster.objects.failed_pods import FailedPod
from tests.booking.controller.reclaimer.evictions.comebacks import gpu_pod, refused_pod

OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


class Watched:
    """The cache, its clock, and how often it has reported a change."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.changes = 0
        self.cache = FailedPodCache(self.clock, self._count)

    def _count(self) -> None:
        self.changes += 1

    @property
    def found(self) -> list[tuple[str, str, float]]:
        """Uid, verdict, and since when, of each rejected pod."""
        return [(one.pod.metadata.uid, one.verdict, one.since) for one in self.cache.rejected]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def failed(uid: str = "v", *, restart: str | None = None, ran: bool = False, **metadata: Any) -> FailedPod:
    pod = refused_pod(uid, uid=uid, **metadata)
    status = {**pod["status"]}
    if ran:
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": {}}}]
    spec = pod["spec"] | ({"restartPolicy": restart} if restart else {})
    return msgspec.convert({**pod, "spec": spec, "status": status}, FailedPod)


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        (failed(), "comes back"),
        (failed(restart="Always", ran=True), "comes back"),
        (failed(restart="Never"), "comes back"),
        (failed(restart="Never", ran=True), "has run"),
    ],
    ids=["rejected", "rejected after it ran", "to run once, and has not", "to run once, and has"],
)
def test_rejected_pods_are_cached_with_their_verdict(watched: Watched, pod: FailedPod, verdict: str) -> None:
    watched.cache.upsert(pod)
    assert watched.found == [("v", verdict, 0.0)]


NOT_OURS = {
    "its controller replaces it": failed(ownerReferences=[OWNER]),
    "it leaves already": failed(deletionTimestamp="2026-03-02T09:00:00Z"),
    "no kubelet has rejected it": msgspec.convert(
        {**gpu_pod("v", uid="v"), "status": {"phase": "Failed"}}, FailedPod
    ),
    "it asks for no GPU": msgspec.convert(
        {**refused_pod("v", uid="v"), "spec": {"nodeName": "n0", "containers": [{"name": "main"}]}}, FailedPod
    ),
}


@pytest.mark.parametrize("pod", NOT_OURS.values(), ids=NOT_OURS)
@pytest.mark.parametrize("before", [False, True], ids=["never seen", "seen before"])
def test_a_pod_that_is_not_ours_is_not_cached_or_is_removed(
    watched: Watched, pod: FailedPod, *, before: bool
) -> None:
    if before:
        watched.cache.upsert(failed())
    watched.cache.upsert(pod)
    assert watched.found == []
    watched.cache.replace([pod], "1")
    assert watched.found == []


@pytest.mark.parametrize("by", ["upsert", "replace"])
def test_the_time_since_a_pod_was_first_seen_survives_events_and_lists(watched: Watched, by: str) -> None:
    watched.cache.upsert(failed())
    watched.clock.advance(5)
    if by == "upsert":
        watched.cache.upsert(failed())
    else:
        watched.cache.replace([failed(), failed("w")], "1")
    assert watched.found[0] == ("v", "comes back", 0.0)
    assert watched.found[1:] == ([("w", "comes back", 5.0)] if by == "replace" else [])


@pytest.mark.parametrize("by", ["remove", "replace"])
def test_a_pod_that_was_gone_and_is_seen_again_counts_from_then(watched: Watched, by: str) -> None:
    watched.cache.upsert(failed())
    if by == "remove":
        watched.cache.remove(failed())
        watched.cache.remove(failed())
    else:
        watched.cache.replace([], "1")
    assert watched.found == []
    watched.clock.advance(5)
    watched.cache.upsert(failed())
    assert watched.found == [("v", "comes back", 5.0)]


@pytest.mark.parametrize("by", ["upsert", "replace"])
def test_pods_stay_in_the_order_in_which_they_were_first_seen(watched: Watched, by: str) -> None:
    for uid in ("b", "a", "c"):
        watched.cache.upsert(failed(uid))
        watched.clock.advance(1)
    if by == "upsert":
        watched.cache.upsert(failed("b"))
    else:
        watched.cache.replace([failed("c"), failed("a"), failed("b")], "1")
    assert [uid for uid, _, _ in watched.found] == ["b", "a", "c"]
