"""What ledger, placement and entitlement should answer, worked out from whole objects each time.

Slow, without memory, and as close to the words of DESIGN as can be: it shares no code with what it judges
but the objects themselves and the readers of their annotations.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cluster import names
from cluster.objects.assignment import Assignment, AssignmentError, assignment_of, drift_of
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold, HoldError, hold_of
from cluster.objects.inventory import Device, InventoryError, inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Bind:
    """A bind that was decided and is not seen yet."""

    pod: Pod
    """As it was when it was decided; perhaps no event has reported it yet."""
    node: str
    assignment: Assignment


@dataclass
class Known:
    """The newest objects that were reported."""

    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    bookings: dict[str, Booking] = field(default_factory=dict)
    binds: dict[str, Bind] = field(default_factory=dict)

    # --- pods ------------------------------------------------------------------------------------------
    def place(self, pod: Pod) -> str | None:
        """The node on which the pod holds something, or may."""
        if pod.status.phase in ENDED:
            return None
        if pod.spec.node_name:
            return pod.spec.node_name if used_at_once(pod) else None
        bind = self.binds.get(pod.metadata.uid)
        return bind.node if bind else None

    def devices(self, pod: Pod) -> frozenset[str] | None:
        """The devices that a pod with a place holds; None where it is not known which they are."""
        uid, node = pod.metadata.uid, self.place(pod)
        drift = self.drift(node) if node else {}
        if uid in drift:
            return frozenset(uuid for uuids in drift[uid].values() for uuid in uuids)
        given = assignment_or_none(pod) if pod.spec.node_name else self.binds[uid].assignment
        if not given:
            return None
        named = frozenset(uuid for uuids in given.values() for uuid in uuids)
        return named - self._impossible(pod, named) if pod.spec.node_name else named

    def _impossible(self, pod: Pod, named: frozenset[str]) -> set[str]:
        """Devices of the node that the pod names and cannot have been given for what it asks."""
        over: set[str] = set()
        wanted = used_at_once(pod)
        there = sorted(
            (device for device in self.inventory(pod.spec.node_name or "") if device.uuid in named),
            key=lambda device: device.uuid,
        )
        gpus = wanted.get(names.GPU_RESOURCE, 0)
        wholes = [device.uuid for device in there if not device.profile]
        over.update(wholes[gpus:])
        gpus -= min(gpus, len(wholes))
        elsewhere: list[str] = []
        for device in there:
            if device.profile:
                resource = names.MIG_RESOURCE_PREFIX + device.profile.replace("+", ".")
                wanted[resource] = wanted.get(resource, 0) - 1
                if wanted[resource] < 0:
                    elsewhere.append(device.uuid)  # it may have been a GPU in another strategy
        return {*over, *elsewhere[gpus:]}

    def drift(self, node: str) -> dict[str, Assignment]:
        """What the agent says."""
        try:
            return drift_of(self.nodes[node])
        except (AssignmentError, KeyError):
            return {}

    def everybody(self) -> dict[str, Pod]:
        """Pods that were reported, and those for which a bind was decided."""
        return {**{uid: bind.pod for uid, bind in self.binds.items()}, **self.pods}

    # --- nodes -----------------------------------------------------------------------------------------
    def inventory(self, node: str) -> tuple[Device, ...]:
        """What the agent has published."""
        try:
            return inventory_of(self.nodes[node])
        except (InventoryError, KeyError):
            return ()

    def holders(self, node: str) -> dict[str, list[str]]:
        """UUID -> uids of the pods that hold it."""
        found: dict[str, list[str]] = {}
        for uid, pod in sorted(self.everybody().items()):
            if self.place(pod) == node:
                for uuid in self.devices(pod) or ():
                    found.setdefault(uuid, []).append(uid)
        return found

    def unknown(self, node: str) -> dict[str, int]:
        """Resource -> how many are held of which it is not known which they are."""
        found: dict[str, int] = {}
        resources = {device.uuid: _resource_of(device) for device in self.inventory(node)}
        for pod in self.everybody().values():
            if self.place(pod) != node or not pod.spec.node_name:
                continue
            by_others = not resources or pod.metadata.uid in self.drift(node)
            if by_others and assignment_or_none(pod):
                continue
            # What the agent says is believed of devices, too, that it has not published yet.
            elsewhere = names.GPU_RESOURCE if by_others else "none of the node's"
            held = [resources.get(uuid, elsewhere) for uuid in self.devices(pod) or ()]
            requested = used_at_once(pod)
            # Of MIG devices beyond those that it asks for by name the pod has some for GPUs.
            more = sum(
                max(0, held.count(name) - requested.get(name, 0))
                for name in {*held} - {names.GPU_RESOURCE, elsewhere}
            )
            for resource, number in requested.items():
                is_gpu = resource == names.GPU_RESOURCE and not by_others
                rest = number - held.count(resource) - (more if is_gpu else 0)
                if rest > 0:
                    found[resource] = found.get(resource, 0) + rest
        return found

    def kept(self, node: str) -> dict[str, str]:
        """UUID -> uid of the pod for which it is kept: the oldest hold has it."""
        holds = [(uid, hold) for uid, pod in self.pods.items() if (hold := waiting_hold(pod))]
        found: dict[str, str] = {}
        for uid, hold in sorted(holds, key=lambda each: (_at(each[1]), each[0]), reverse=True):
            if hold.node == node:
                found.update(dict.fromkeys(hold.devices, uid))
        return found

    def free(self, node: str) -> list[Device]:
        """Devices that may be given to anybody, in the order of their index."""
        held, kept = self.holders(node), self.kept(node)
        inventory = self.inventory(node)
        cut = {device.parent for device in inventory}
        return [
            device
            for device in sorted(inventory, key=lambda device: (device.index, device.uuid))
            if device.health == "healthy"
            and device.uuid not in held
            and device.uuid not in kept
            and device.uuid not in cut
        ]

    # --- entitlement -----------------------------------------------------------------------------------
    def cover(self, now: datetime) -> dict[str, str]:
        """Pod uid -> name of the booking that covers it (DESIGN, section 2)."""
        covered: dict[str, str] = {}
        running = [b for b in self.bookings.values() if b.spec.start <= now < b.spec.end]
        for booking in sorted(running, key=lambda b: (b.spec.start, b.name)):
            used = 0
            for pod in sorted(self.pods.values(), key=lambda pod: _turn(pod, booking)):
                uid, gpus = pod.metadata.uid, self.coverable(pod, booking)
                if uid not in covered and gpus is not None and used + gpus <= booking.spec.count:
                    covered[uid] = booking.name
                    used += gpus
        return covered

    def coverable(self, pod: Pod, booking: Booking) -> int | None:
        """GPUs of the pod, if the booking could cover it at all."""
        spec, meta = booking.spec, pod.metadata
        wanted = used_at_once(pod)
        is_live = pod.status.phase not in ENDED and meta.deletion_timestamp is None
        is_theirs = meta.annotation(names.USER) == spec.user
        is_there = spec.namespace in (None, meta.namespace)
        if not (is_live and is_theirs and is_there and set(wanted) == {names.GPU_RESOURCE}):
            return None
        return wanted[names.GPU_RESOURCE] if self._is_of_model(pod, spec.model) else None

    def _is_of_model(self, pod: Pod, model: str) -> bool:
        node = self.place(pod)
        held = self.devices(pod) if node else None
        if node and held:
            models = {device.uuid: device.model for device in self.inventory(node)}
            return all(models.get(uuid) == model for uuid in held)
        models = {part for part in _requested_models(pod).split(",") if part}
        return not models or model in models


def _turn(pod: Pod, booking: Booking) -> tuple[bool, datetime, str]:
    meta = pod.metadata
    text = meta.annotation(names.FIRST_CREATED)
    first = datetime.fromisoformat(text) if text else meta.creation_timestamp
    assert first is not None
    return (meta.annotation(names.BOOKING) != booking.name, first, meta.uid)


def _requested_models(pod: Pod) -> str:
    """The text of the pod's request for models."""
    return pod.metadata.annotation(names.MODEL) or ""


def assignment_or_none(pod: Pod) -> Assignment | None:
    """What the extender wrote, if it can be read."""
    try:
        return assignment_of(pod)
    except AssignmentError:
        return None


def waiting_hold(pod: Pod) -> Hold | None:
    """The hold of a pod that still waits."""
    if pod.spec.node_name or pod.metadata.deletion_timestamp or pod.status.phase in ENDED:
        return None
    try:
        return hold_of(pod)
    except HoldError:
        return None


def _at(hold: Hold) -> datetime:
    return hold.at or datetime.max.replace(tzinfo=UTC)


def _resource_of(device: Device) -> str:
    """The name by which the device is asked for."""
    profile = device.profile
    return names.MIG_RESOURCE_PREFIX + profile.replace("+", ".") if profile else names.GPU_RESOURCE


def used_at_once(pod: Pod) -> dict[str, int]:
    """Resource -> devices that the kubelet gives the pod in all, container by container, reuse and all."""
    given: dict[str, int] = {}
    reusable: dict[str, set[int]] = {}
    inits = [(c, c.restart_policy != "Always") for c in pod.spec.init_containers or ()]
    for container, is_passing in [*inits, *((c, False) for c in pod.spec.containers or ())]:
        limits = (container.resources.limits if container.resources else None) or {}
        for resource, amount in limits.items():
            left = reusable.setdefault(resource, set())
            taken = set(sorted(left)[: int(amount)])
            first = given.get(resource, 0)
            fresh = set(range(first, first + int(amount) - len(taken)))
            given[resource] = first + len(fresh)
            reusable[resource] = left | fresh if is_passing else left - taken
    return {resource: number for resource, number in given.items() if names.is_gpu_resource(resource)}


def links_to(device: Device, others: Iterable[Device]) -> int:
    """NVLinks between a device and others, whichever of two reports them."""
    pairs = ((device, other) for other in others)
    return sum(max((a.links or {}).get(b.uuid, 0), (b.links or {}).get(a.uuid, 0)) for a, b in pairs)
