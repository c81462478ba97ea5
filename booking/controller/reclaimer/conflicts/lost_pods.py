"""Replaces a pod that was bound with a device on which another pod runs already, by another claim.

Its kubelet cannot prepare the claim as long as that pod runs, and tries again for ever; nothing ever fails.
So the pod leaves, and comes back as it was with its place in the order, as one does that a kubelet has
rejected (law L4): none of its containers has begun. Only pods that our admission has seen, and only after a
while, since the other one may be about to end. That is all that is kept in memory.

Of the pods that share a device nobody knows here which one is not prepared: such a pod waits.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import structlog

from booking.controller.reclaimer.conflicts.spoiled_devices import given_twice
from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictor import EvictionCause, TooLateError
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.kube.errors import ApiError
from cluster.objects.claims import Place
from cluster.objects.pods import Pod, is_live

log = structlog.get_logger(__name__)

AFTER: Final = 15.0
"""Seconds for which a pod has lost before it is replaced."""
GRACE_SECONDS: Final = 1
"""Nothing of such a pod runs."""


def lost(snapshot: ReclaimerSnapshot) -> Mapping[str, Place]:
    """Uid of a pod that cannot begin -> the device of its claims that another pod runs with. Pure."""
    twice = given_twice(snapshot.node_snapshots.views, snapshot.conflicts) if snapshot.conflicts else None
    if not twice:
        return {}
    had = [
        (pod, one.claim, (one.node, one.device))
        for pod in snapshot.pods.values()
        for one in (pod.claims.held if pod.claims else ())
        if (one.node, one.device) in twice and not one.memory
        if pod.spec.node_name == one.node and is_live(pod)
    ]
    running = [(claim, place) for pod, claim, place in had if pod.status.phase == "Running"]
    return {
        pod.metadata.uid: place
        for pod, claim, place in had
        if _has_not_begun(pod) and any(there == place and other != claim for other, there in running)
    }


def _has_not_begun(pod: Pod) -> bool:
    has_begun = any(
        one.state and (one.state.running or one.state.terminated)
        for one in pod.status.container_statuses or ()
    )
    is_ours = names.ADMITTED in (pod.metadata.annotations or {})
    return is_ours and pod.status.phase == "Pending" and not has_begun


def message(place: Place) -> str:
    """Why it had to leave, for its owner."""
    node, device = place
    return (
        f"GPU {device} of node {node} was given to this pod's claim and to another one, whose pod runs on it."
    )


class LostPods:
    """Replaces them. Not thread-safe."""

    def __init__(self, context: ReclaimerContext) -> None:
        self._context, self._clock = context, context.clock
        self._requests = RecentRequests(context.clock)
        self._since: dict[str, float] = {}
        """Uid -> since when it has lost; monotonic seconds."""

    @property
    def uids(self) -> frozenset[str]:
        """Of the pods that have lost, as of the last pass."""
        return frozenset(self._since)

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Replace those that have lost for a while; a step that fails is tried again."""
        now, found = self._clock.monotonic(), lost(snapshot)
        self._since = {uid: self._since.get(uid, now) for uid in found}
        for uid, place in found.items():
            if now - self._since[uid] >= AFTER and self._requests.is_due(uid):
                self._replace(snapshot.pods[uid], place)

    def _replace(self, pod: Pod, place: Place) -> None:
        why = EvictionCause("refused", message(place), GRACE_SECONDS, back="as-it-was")
        try:
            self._context.evictor.evict(pod, why, is_valid=partial(self._has_lost, pod.metadata.uid))
        except TooLateError:
            return
        except ApiError as error:
            self._context.failures.note("replacement of a pod whose device another one has", pod.key, error)
            return
        log.warning(
            "a pod whose device another one has is replaced", pod=pod.key, node=place[0], device=place[1]
        )

    def _has_lost(self, uid: str) -> bool:
        """Whether it has lost still, at the moment of its eviction."""
        return uid in lost(self._context.instant()) and self._context.may_act()
