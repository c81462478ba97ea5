"""The holders of each device: from the kubelet's checkpoint, the node's pods and their assignments; pure.

Used by ``holders_page``, ``monitor``, ``squatters`` and ``usage_metrics``. The checkpoint wins over an
assignment (law L1); it keeps entries of pods that have ended, which hold nothing any more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from cluster import names
from cluster.objects.assignment import readable_assignment_of
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminal
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.usage.claimed import ClaimedPart

Source = Literal["kubelet", "assignment"]
"""The kubelet's checkpoint, or its record of claims; or what the extender wrote on a pod, where the kubelet
has not given anything yet or its checkpoint cannot be read."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a device. A text is empty if it is unknown, or there is none."""

    device: str
    index: int
    model: str
    uid: str
    containers: tuple[str, ...]
    """Names of the containers that have the device; empty where the pod has it by a claim."""
    namespace: str = ""
    pod: str = ""
    user: str = ""
    """Id of the user to whom the pod belongs."""
    booking: str = ""
    """The booking that covers it, by the pod's annotation."""
    source: Source


@dataclass(frozen=True)
class HolderSnapshot:
    """The holders at one instant."""

    held: tuple[Holder, ...] = ()
    pods: tuple[Pod, ...] = ()
    """The pods of this node, perhaps as they were a moment ago."""
    shares: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(Device, pod uid) -> bytes of a shared GPU that the pod may use."""
    together: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """(Device, pod uid) -> uids of the pods that have that share together, where they are several."""
    claimed: frozenset[str] = frozenset()
    """Devices that claims have: no process there is a squatter."""
    is_certain: bool = False
    """Whether the checkpoint could be read: without it a pod that is missing here may hold a device."""


NO_HOLDER: Final = ("", "", "", "")
"""Namespace, pod, user and booking of a device that no pod holds."""


def holders(
    devices: Iterable[Device],
    holdings: PodDevices | None,
    pods: Iterable[Pod],
    *,
    claimed: Iterable[ClaimedPart] = (),
    is_current: bool = True,
) -> tuple[Holder, ...]:
    """The holders of each device, in the devices' order.

    Args:
        devices: of this node.
        holdings: the kubelet's checkpoint; None where it cannot be read.
        pods: of this node.
        claimed: what claims have, by the kubelet's record of claims.
        is_current: whether the pods were read after the checkpoint: then a pod that is missing has ended.
            Otherwise it may be new, and is listed without its name.
    """
    by_uid = {pod.metadata.uid: pod for pod in pods}
    living = {uid: pod for uid, pod in by_uid.items() if not is_terminal(pod)}
    served = holdings.of_containers if holdings else {}
    found: dict[tuple[str, str], tuple[set[str], Source]] = {}
    for (uid, container), uuids in served.items():
        if uid in living or not (is_current or uid in by_uid):
            _note(found, (uid, container), uuids, "kubelet")
    for part in claimed:
        for uid in part.pods:
            if uid in living or uid not in by_uid:
                found.setdefault((part.device, uid), (set(), "kubelet"))
    for uid, pod in living.items():
        for container, assigned in readable_assignment_of(pod).items():
            # The kubelet allocates one resource of a container after the other: the rest is still assigned.
            if len(served.get((uid, container), ())) < len(assigned):
                _note(found, (uid, container), assigned, "assignment")
    return tuple(
        _holder(device, uid, living.get(uid), containers=tuple(sorted(containers)), source=source)
        for device in devices
        for (uuid, uid), (containers, source) in sorted(found.items())
        if uuid == device.uuid
    )


def by_device(held: Iterable[Holder]) -> Mapping[str, tuple[Holder, ...]]:
    """Device -> its holders."""
    found: dict[str, list[Holder]] = {}
    for holder in held:
        found.setdefault(holder.device, []).append(holder)
    return {device: tuple(those) for device, those in found.items()}


def _note(
    found: dict[tuple[str, str], tuple[set[str], Source]],
    place: tuple[str, str],
    uuids: Iterable[str],
    source: Source,
) -> None:
    uid, container = place
    for uuid in uuids:
        containers, _ = found.setdefault((uuid, uid), (set(), source))
        containers.add(container)


def _holder(
    device: Device, uid: str, pod: Pod | None, *, containers: tuple[str, ...], source: Source
) -> Holder:
    namespace, name, user, booking = owner_labels(pod)
    return Holder(
        device=device.uuid,
        index=device.index,
        model=device.model,
        uid=uid,
        containers=containers,
        namespace=namespace,
        pod=name,
        user=user,
        booking=booking,
        source=source,
    )


def owner_labels(pod: Pod | None) -> tuple[str, str, str, str]:
    """Namespace, name, user id and booking of a pod, as far as they are known."""
    if pod is None:
        return NO_HOLDER
    value = pod.metadata.annotation
    return pod.metadata.namespace, pod.metadata.name, value(names.USER) or "", value(names.BOOKING) or ""
