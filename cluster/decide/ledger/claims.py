"""What one pod holds, read from the pod alone."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cluster import names
from cluster.decide.ledger.amounts import WHOLE, Amounts
from cluster.objects.assignment import Assignment, devices_of, promise_of
from cluster.objects.demand import demand
from cluster.objects.inventory import Device, asked_as, resource_of
from cluster.objects.pods import Pod, container_needs, is_terminal
from cluster.objects.quantity import QuantityError


@dataclass(frozen=True, slots=True)
class Claim:
    """Devices that a pod holds on a node."""

    uid: str
    node: str
    devices: Amounts
    asked: Mapping[str, int] = field(default_factory=dict)
    """Resource -> how many devices the pod asks for; empty for one that was told with its devices."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Resource -> how many devices the pod holds of which nobody has said which they are."""
    known_as: str = ""
    """The uid by which the kubelet, and so the node's agent, knows it: a static pod's is not its mirror's."""


def claim_of(pod: Pod) -> Claim | None:
    """What a bound, living pod holds by its own words; None for a pod that holds nothing.

    A terminating pod still holds. A pod that was bound without an assignment, or with one that cannot be
    read or says nothing about it, holds as many unknown devices as it asks for.
    """
    node = pod.spec.node_name
    if not node or is_terminal(pod):
        return None
    asked = _asked(pod)
    if not asked:
        return None
    uid = pod.metadata.uid
    if assignment := promise_of(pod):
        return replace(given(uid, node, assignment), asked=asked)
    known_as = pod.metadata.annotation(names.STATIC_POD) or uid
    return Claim(uid=uid, node=node, devices={}, asked=asked, unknown=asked, known_as=known_as)


def present(claim: Claim, devices: Mapping[str, Device]) -> Claim:
    """The claim on a node whose devices are known: those that the pod can have been given for what it asks.

    Nobody has said which the others are that it asks for.

    Args:
        claim: by the pod's own words.
        devices: of the node, by UUID.
    """
    if not claim.asked:
        return claim
    rest = dict(claim.asked)
    counted = {uuid for uuid in claim.devices if uuid not in devices}
    known = [devices[uuid] for uuid in claim.devices if uuid in devices]
    # Whole GPUs first: for them there is one name, for MIG devices there are two.
    for device in sorted(known, key=lambda device: device.profile is not None):
        resource = next((name for name in asked_as(device) if rest.get(name)), None)
        if resource:
            rest[resource] -= 1
            counted.add(device.uuid)
    unknown = {resource: number for resource, number in rest.items() if number}
    if len(counted) == len(claim.devices) and not unknown:
        return claim
    held = {uuid: amount for uuid, amount in claim.devices.items() if uuid in counted}
    return replace(claim, devices=held, unknown=unknown)


def told(claim: Claim, drift: Mapping[str, Assignment], devices: Mapping[str, Device]) -> Claim:
    """The claim as the node's agent has it, where it says anything about the pod.

    Of a pod that nobody has given devices, those of which the agent does not say yet which they are stay
    unknown: containers are served one after the other.

    Args:
        claim: by the pod's own words.
        drift: what the agent says, by the kubelet's uids.
        devices: of the node, by UUID.
    """
    said = drift.get(claim.known_as or claim.uid)
    if said is None:
        return claim
    known = given(claim.uid, claim.node, said)
    rest = Counter(claim.unknown)
    rest.subtract(
        resource_of(devices[uuid]) if uuid in devices else names.GPU_RESOURCE for uuid in known.devices
    )
    return replace(known, unknown=dict(+rest), known_as=claim.known_as)


def given(uid: str, node: str, assignment: Assignment) -> Claim:
    """The claim of a pod that has these devices."""
    return Claim(uid=uid, node=node, devices=dict.fromkeys(sorted(devices_of(assignment)), WHOLE))


def _asked(pod: Pod) -> dict[str, int]:
    try:
        return demand(container_needs(pod))
    except QuantityError:
        # The API server refuses such pods; one that exists all the same must not stop the ledger.
        return {}
