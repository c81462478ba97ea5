"""What can be seen of pods, and a whole world as a value: two worlds that ended alike are equal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.pods import Pod, asks_for_gpus, is_live, is_terminating
from cluster.objects.scheduling_gates import is_queued

if TYPE_CHECKING:
    from tests.scenarios.world import World

PASSING: Final = (names.HOLD, names.NOTICE, names.BARRED)
"""What must not be left over."""

REFUSED: Final = "refused"
"""Why a pod has come back that its kubelet had turned away."""

Value = Mapping[str, Any]


def devices(pod: Pod | None) -> frozenset[str]:
    """The devices that were given to a pod."""
    return devices_of(assignment_of(pod) or {}) if pod else frozenset()


def runs(world: "World", *names_: str) -> bool:
    """Whether all of these pods run."""
    phases = {p.metadata.name: p.status.phase for p in world.pods() if is_live(p)}
    return all(phases.get(name) == "Running" for name in names_)


def waits(world: "World", name: str) -> bool:
    """Whether the scheduler has found no node for a pod, or the pod waits in line behind our gate."""
    pod = world.pod(name)
    if pod is None or pod.spec.node_name:
        return False
    reasons = {c.reason for c in pod.status.conditions or () if c.type == "PodScheduled"}
    return is_queued(pod) or "Unschedulable" in reasons


def has_left(world: "World", name: str, uid: str) -> bool:
    """Whether this very pod has been deleted, or is gone."""
    pod = world.pod(name)
    return pod is None or pod.metadata.uid != uid or is_terminating(pod)


def is_gone(world: "World", name: str, uid: str) -> bool:
    """Whether this very pod is gone."""
    pod = world.pod(name)
    return pod is None or pod.metadata.uid != uid


def is_back(world: "World", name: str, uid: str) -> bool:
    """Whether a pod without GPUs has taken the place of this one, runs, and nothing is left to do."""
    pod = world.pod(name)
    return (
        pod is not None
        and pod.metadata.annotation(names.RECREATED_FROM) == uid
        and pod.status.phase == "Running"
        and not pod.metadata.finalizers
        and not asks_for_gpus(pod)
    )


def uid_of(world: "World", name: str) -> str:
    """Of the pod that has this name now."""
    pod = world.pod(name)
    assert pod is not None, f"There is no pod {name}.\n{world.describe()}"
    return pod.metadata.uid


def state_of(world: "World") -> Value:
    """Pods, bookings and comebacks, without uids, versions and times, and without saying which GPU."""
    return {
        "pods": {pod.key: _pod(pod) for pod in world.kube.list(PODS).items},
        "bookings": sorted(
            (
                b.spec.user,
                b.spec.model,
                b.spec.count,
                b.spec.end <= world.clock.now(),
                b.status.ending is None,
            )
            for b in world.bookings()
        ),
        "comebacks": world.templates(),
    }


def _pod(pod: Pod) -> Value:
    meta = pod.metadata
    reason = meta.annotation(names.COMEBACK_REASON)
    return {
        "phase": pod.status.phase,
        "live": is_live(pod),
        "user": meta.annotation(names.USER),
        "gpus": len(devices(pod)),
        "asks": asks_for_gpus(pod),
        "booked": meta.annotation(names.BOOKING) is not None,
        "back": None if reason == REFUSED else reason,  # which comes back as it was
        "left over": sorted(key for key in PASSING if meta.annotation(key)),
        "finalizers": meta.finalizers,
    }
