"""The gate before a container starts: may it start with the devices that it has? Pure.

Used by ``allocator`` in PreStartContainer, which the kubelet calls before every start of a container with
devices. It passes only the ids, but by then its checkpoint names the pod that holds them. A refusal does not
fail the pod: it stays Pending with our message in its status, and the kubelet calls again some seconds later.
Laws L1, L8.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cluster.objects.assignment import readable_assignment_of
from cluster.objects.device_selector import DeviceSelector, device_selector_of
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminal
from cluster.objects.slots import is_slot, physical
from deviceplugin.allocation.pod_devices import PodDevices


class StartVerdict(StrEnum):
    """The outcome; each is a label value of the metric."""

    AS_ASSIGNED = "as-assigned"
    OTHER_DEVICES = "other-devices"
    """The pod has other devices than assigned, and they satisfy its request: reported as drift, not
    refused."""
    UNASSIGNED = "unassigned"
    """Nothing was assigned to the pod, or its annotations could not be read."""
    UNCHECKED = "unchecked"
    """The checkpoint could not be read: the kubelet's own accounting is trusted."""
    UNHEALTHY = "unhealthy"
    TWO_PODS = "two-pods"
    SHARE_CONFLICT = "share-conflict"
    """One pod has a GPU whole, and another one a share of it; or a pod has a share that was not assigned to
    it, and there is not enough of that GPU."""
    UNKNOWN_POD = "unknown-pod"
    WRONG_MODEL = "wrong-model"


OPEN = frozenset(
    {StartVerdict.AS_ASSIGNED, StartVerdict.OTHER_DEVICES, StartVerdict.UNASSIGNED, StartVerdict.UNCHECKED}
)


@dataclass(frozen=True)
class StartDecision:
    """Whether the container may start, and why not."""

    gate: StartVerdict
    uid: str | None = None
    message: str = ""
    pod: Pod | None = field(default=None, compare=False)
    """The pod, if it is proven and was read."""
    containers: tuple[str, ...] = field(default=(), compare=False)
    """Its containers that have exactly these devices: an init container and the one that takes them over."""

    @property
    def is_open(self) -> bool:
        """Whether the container may start."""
        return self.gate in OPEN


@dataclass(frozen=True)
class _Facts:
    """The input of a decision."""

    pods: Mapping[str, Pod]
    known: Mapping[str, Device]
    other_resources: frozenset[str]


def decide(
    devices: frozenset[str],
    holdings: PodDevices | None,
    pods: Mapping[str, Pod] | None,
    known: Mapping[str, Device],
    *,
    other_resources: frozenset[str] = frozenset(),
) -> StartDecision:
    """Whether the container that has exactly these devices may start.

    Args:
        devices: ids that the container has, as the kubelet passes them.
        holdings: the kubelet's checkpoint; None if it cannot be read.
        pods: uid -> the pods that hold any of these devices; None if they could not be read. If several pods
            hold them by the checkpoint, one that is missing here is gone.
        known: uuid -> the devices of this node.
        other_resources: devices of other resources; the kubelet makes a call of its own for each resource.
    """
    uuids = sorted(map(physical, devices))
    if unhealthy := [uuid for uuid in uuids if uuid not in known or not known[uuid].is_healthy]:
        return StartDecision(StartVerdict.UNHEALTHY, message=_unhealthy_message(unhealthy[0], known))
    if holdings is None or not (holdings.entries or holdings.others):
        if any(map(is_slot, devices)):
            return StartDecision(StartVerdict.UNKNOWN_POD, message=_unknown(devices))
        # A pod without an entry is gone: the kubelet writes this container's entry before it calls.
        return StartDecision(
            StartVerdict.UNCHECKED, message="The kubelet's checkpoint cannot be read: not checked."
        )
    return _by_checkpoint(devices, holdings, pods, _Facts(pods or {}, known, other_resources))


def too_full(decision: StartDecision, uuid: str) -> StartDecision:
    """The decision for a pod with a share that was not assigned to it, of a GPU without room for that."""
    message = (
        f"{decision.message} GPU {uuid} has not so much memory or compute left for shares. Delete the pod, so"
        " that it gets another GPU."
    ).lstrip()
    return replace(decision, gate=StartVerdict.SHARE_CONFLICT, message=message)


def _by_checkpoint(
    devices: frozenset[str], holdings: PodDevices, pods: Mapping[str, Pod] | None, facts: _Facts
) -> StartDecision:
    """Whose devices they are by the checkpoint, and whether that pod may start with them."""
    holders = holdings.holders(devices)
    if len(holders) > 1 and pods is not None:
        holders = frozenset(uid for uid in holders if uid in pods and not is_terminal(pods[uid]))
    exact = {uid for uid, _ in _containers_with(devices, holdings)} & holders
    if len(holders) > 1:
        if all(devices & holdings.of(uid) for uid in holders):
            return StartDecision(StartVerdict.TWO_PODS, message=_two(devices, holders, pods))
        return StartDecision(StartVerdict.SHARE_CONFLICT, message=_whole_and_shared(devices, holders, pods))
    if len(exact) != 1:
        return StartDecision(StartVerdict.UNKNOWN_POD, message=_unknown(devices))
    uid = exact.pop()
    containers = tuple(name for holder, name in _containers_with(devices, holdings) if holder == uid)
    if uid not in facts.pods and any(map(is_slot, devices)):
        return StartDecision(StartVerdict.UNKNOWN_POD, uid, _unread(devices))
    found = _against_assignment(uid, frozenset(map(physical, devices)), containers, facts)
    return replace(found, pod=facts.pods.get(uid), containers=containers)


def _against_assignment(
    uid: str,
    devices: frozenset[str],
    containers: tuple[str, ...],
    facts: _Facts,
) -> StartDecision:
    """What the proven pod of these containers was assigned, in comparison with these UUIDs."""
    pod, known = facts.pods.get(uid), facts.known
    if pod is None:
        return StartDecision(StartVerdict.UNASSIGNED, uid)
    assignment = {
        name: frozenset(uuids) - facts.other_resources for name, uuids in readable_assignment_of(pod).items()
    }
    # Checked first: the extender has read the request already, and its owner may have changed it since.
    if any(devices == assignment.get(container) for container in containers):
        return StartDecision(StartVerdict.AS_ASSIGNED, uid)
    selector = device_selector_of(pod)
    if wrong := [uuid for uuid in sorted(devices) if not selector.takes(known[uuid])]:
        return StartDecision(StartVerdict.WRONG_MODEL, uid, _wrong_model(pod, known[wrong[0]], selector))
    if not any(assignment.values()):
        return StartDecision(StartVerdict.UNASSIGNED, uid)
    return StartDecision(StartVerdict.OTHER_DEVICES, uid, _other(pod, devices, containers[0]))


def _containers_with(devices: frozenset[str], holdings: PodDevices) -> list[tuple[str, str]]:
    return sorted(container for container, ids in holdings.entries.items() if ids == devices)


def _unhealthy_message(uuid: str, known: Mapping[str, Device]) -> str:
    if uuid not in known:
        return f"GPU {uuid} is not there any more. Delete the pod, so that it gets another GPU."
    reason = known[uuid].reason or "no reason given"
    return (
        f"GPU {uuid} is unhealthy: {reason.rstrip('.')}. The container starts when the GPU is healthy again;"
        " delete the pod to get another one."
    )


def _two(devices: frozenset[str], holders: frozenset[str], pods: Mapping[str, Pod] | None) -> str:
    return (
        f"The kubelet has given {', '.join(sorted(devices))} to more than one pod ({_who(holders, pods)})."
        " A GPU belongs to one pod at a time: delete one of them."
    )


def _whole_and_shared(
    devices: frozenset[str], holders: frozenset[str], pods: Mapping[str, Pod] | None
) -> str:
    return (
        f"The kubelet has given {', '.join(sorted(map(physical, devices)))} whole to one pod, and a share of"
        f" it to another ({_who(holders, pods)}). Delete one of them."
    )


def _who(holders: frozenset[str], pods: Mapping[str, Pod] | None) -> str:
    return ", ".join(
        sorted((pods or {})[uid].key if uid in (pods or {}) else f"uid {uid}" for uid in holders)
    )


def _unknown(devices: frozenset[str]) -> str:
    return (
        f"No pod has exactly {', '.join(sorted(devices))} in the kubelet's checkpoint."
        " The container starts as soon as its devices are recorded."
    )


def _unread(devices: frozenset[str]) -> str:
    return (
        f"The pod that has {', '.join(sorted(devices))} cannot be read, so it is not known how much of"
        " the GPU it may use. The container starts as soon as its pod is known."
    )


def _wrong_model(pod: Pod, device: Device, selector: DeviceSelector) -> str:
    return (
        f"Pod {pod.key} asks for a GPU{selector.text}, but the kubelet gave it GPU {device.uuid}, "
        f"a {device.model}. Delete the pod, so that it gets what it asks for."
    )


def _other(pod: Pod, devices: frozenset[str], container: str) -> str:
    assigned = ", ".join(readable_assignment_of(pod).get(container, ())) or "nothing"
    whom = f"Container {container} of pod {pod.key}"
    return f"{whom} was assigned {assigned} and got {', '.join(sorted(devices))}."
