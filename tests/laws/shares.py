"""Whether several pods may have one GPU: each a share, in one mode, and together no more than it offers.

All pods that have it by one claim are one holder.
Amounts are read from limits, by a rule of its own: what runs at the same time counts. That is never more than
what the ledger counts, so whatever is too much here was certainly too much.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cluster import names
from cluster.objects.assignment import Assignment, assignment_of, devices_of
from cluster.objects.claims import ClaimedDevice
from cluster.objects.inventory import Device
from cluster.objects.pods import Container, Pod
from cluster.objects.quantity import parse_count
from tests.laws.devices import advertised_devices
from tests.laws.state import State

AMOUNTS: Final = (names.GPU_MEMORY, names.GPU_MEMORY_PERCENTAGE, names.GPU_CORES)


@dataclass(frozen=True)
class _Part:
    """MiB, percent of the compute, and slots."""

    memory: int = 0
    cores: int = 0
    slots: int = 0

    def plus(self, other: "_Part") -> "_Part":
        return _Part(self.memory + other.memory, self.cores + other.cores, self.slots + other.slots)

    def least(self, other: "_Part") -> "_Part":
        """At least as much of everything as both."""
        return _Part(
            max(self.memory, other.memory), max(self.cores, other.cores), max(self.slots, other.slots)
        )


def may_share(uuid: str, pods: Iterable[Pod], state: State, name: str | None = None) -> bool:
    """Whether these pods may have the GPU together. The one that reserves it has no part of it.

    Args:
        uuid: the GPU.
        pods: who has it.
        state: the cluster.
        name: what the GPU is called in claims, also where its node gives none by claims any more.
    """
    sharers = [pod for pod in pods if pod.metadata.annotation(names.RESERVES) != uuid]
    device = _device(uuid, sharers, state)
    name = (device.claimed_as if device else None) or name
    if name and _are_of_one_claim(name, sharers):
        return True
    if device is None:
        return False
    others = [pod for pod in sharers if not (name and _held(pod, name))]
    memory = _memory_by_claims(name or "", sharers)
    if memory is None or not all(map(_is_sharing, others)) or (others and not device.share):
        return False
    modes = {pod.metadata.annotation(names.SHARING_MODE) or "time-slice" for pod in others}
    if len(others) < len(sharers):
        modes.add("time-slice")
    total = _Part(memory)
    for pod in others:
        total = total.plus(_part(pod, device))
    if device.share is None:
        return total.memory <= device.memory
    offer = device.share
    fits = total.memory <= offer.memory and total.cores <= 100 and total.slots <= offer.slots
    return fits and len(modes) == 1


def _held(pod: Pod, name: str) -> list[ClaimedDevice]:
    """What a pod's claims have of the device of this name."""
    return [one for one in (pod.claims.held if pod.claims else ()) if one.device == name]


def _are_of_one_claim(name: str, pods: Iterable[Pod]) -> bool:
    """Whether there is a claim by which all of them have the device of this name."""
    claims = [frozenset(one.claim for one in _held(pod, name)) for pod in pods]
    return bool(claims) and bool(frozenset.intersection(*claims))


def _memory_by_claims(name: str, pods: Iterable[Pod]) -> int | None:
    """MiB that pods' claims have of the device together, each claim once; None if one has all of it."""
    memory: dict[str, int] = {}
    for pod in pods:
        theirs = _held(pod, name)
        if not all(one.memory for one in theirs):
            return None
        for claim in {one.claim for one in theirs}:
            memory[claim] = sum(one.memory for one in theirs if one.claim == claim)
    return sum(memory.values())


def may_share_after(uuid: str, pod: Pod, others: Iterable[Pod], state: State) -> bool:
    """Whether a pod with a share of one GPU may have it of this one, beside these others."""
    there = list(others)
    every = (device for node in state.nodes.values() for device in advertised_devices(node))
    device = next((one for one in every if one.uuid == uuid), None)
    if device is None or device.share is None or not all(map(_is_sharing, there)):
        return False
    modes = {one.metadata.annotation(names.SHARING_MODE) or "time-slice" for one in (pod, *there)}
    memory, cores = largest_part(pod, device)
    total, claims = _Part(memory, cores, 1), set[str]()
    for one in there:
        theirs = {
            held.claim for held in (one.claims.held if one.claims else ()) if held.device == device.claimed_as
        }
        if not theirs or theirs - claims:  # what a claim has counts once
            total = total.plus(_part(one, device))
        claims |= theirs
    offer = device.share
    fits = total.memory <= offer.memory and total.cores <= 100 and total.slots <= offer.slots
    return len(modes) == 1 and fits


def is_sharing(pod: Pod) -> bool:
    """Whether it asks for shares alone."""
    return _is_sharing(pod)


def largest_part(pod: Pod, device: Device) -> tuple[int, int]:
    """MiB and percent of the compute that a container of the pod wants of a device like this, at most."""
    every = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    parts = [_requested(one, device, {one.name: (device.uuid,)}) for one in every]
    return max(part.memory for part in parts), max(part.cores for part in parts)


def part_of(pod: Pod, device: Device) -> int:
    """MiB that a bound pod has of a device."""
    return _part(pod, device).memory


def _device(uuid: str, pods: Iterable[Pod], state: State) -> Device | None:
    nodes = {pod.spec.node_name for pod in pods}
    found = [state.nodes[name] for name in nodes if name in state.nodes]
    return next((one for node in found for one in advertised_devices(node) if one.uuid == uuid), None)


def _is_sharing(pod: Pod) -> bool:
    every = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
    return any(names.SHARED_RESOURCE in _limits(one) for one in every) and not any(
        names.GPU_RESOURCE in _limits(one) for one in every
    )


def _part(pod: Pod, device: Device) -> _Part:
    """What the pod's containers that name the GPU have of it at the time at which they have the most.

    Where none names it (the kubelet gave the pod another one), the smallest share of a container counts.
    """
    theirs = assignment_of(pod) or {}
    if device.uuid not in devices_of(theirs):
        every = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
        requested = [_requested(one, device, {one.name: (device.uuid,)}) for one in every]
        return min((one for one in requested if one.slots), key=lambda one: one.memory)
    sidecars, peak = _Part(), _Part()
    for one in pod.spec.init_containers or ():
        requested = _requested(one, device, theirs)
        if one.is_sidecar:
            sidecars = sidecars.plus(requested)
        else:
            peak = peak.least(sidecars.plus(requested))
    for one in pod.spec.containers or ():
        sidecars = sidecars.plus(_requested(one, device, theirs))
    return peak.least(sidecars)


def _requested(container: Container, device: Device, theirs: Assignment) -> _Part:
    limits = _limits(container)
    if device.uuid not in theirs.get(container.name, ()) or names.SHARED_RESOURCE not in limits:
        return _Part()
    if device.share is None:
        return _Part()
    memory, percent, cores = (parse_count(str(limits.get(name, 0))) for name in AMOUNTS)
    offered = device.share.memory
    return _Part(memory or (offered * percent // 100 if percent else offered), cores, 1)


def _limits(container: Container) -> Mapping[str, str | int]:
    return (container.resources.limits if container.resources else None) or {}
