"""Which pod holds which device of a state, and which are kept for which pod: by the objects alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from cluster import names
from cluster.objects.assignment import AssignmentError, assignment_of, devices_of, drift_of
from cluster.objects.demand import demand
from cluster.objects.device_selector import mebibytes
from cluster.objects.hold import Hold, HoldError, hold_of
from cluster.objects.inventory import Device, InventoryError, decode_inventory
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, container_needs, is_live, is_terminal
from cluster.objects.quantity import QuantityError
from tests.laws.changes import Change
from tests.laws.groups import NOBODY, Group
from tests.laws.state import State

Uid = str
Uuid = str


def assigned(pod: Pod) -> frozenset[Uuid]:
    """The devices that the Binding gave to a pod, which need not be bound or living."""
    try:
        return devices_of(assignment_of(pod) or {})
    except AssignmentError:
        return frozenset()


def drifted(node: Node | None) -> Mapping[Uid, frozenset[Uuid]]:
    """What the agent of a node says about pods that have other devices than they were given."""
    try:
        return {uid: devices_of(one) for uid, one in drift_of(node).items()} if node else {}
    except AssignmentError:
        return {}


def is_bound(pod: Pod) -> bool:
    """Whether it is on a node and has not ended: then it holds its devices, also while it terminates."""
    return bool(pod.spec.node_name) and not is_terminal(pod)


def held(pod: Pod, state: State) -> frozenset[Uuid]:
    """The devices that a pod holds: drift wins over what was assigned (ADR 8)."""
    if not is_bound(pod):
        return frozenset()
    real = drifted(state.nodes.get(pod.spec.node_name or ""))
    return real.get(pod.metadata.uid, assigned(pod))


def needed(pod: Pod) -> Mapping[str, int]:
    """Resource -> devices that a pod needs at most at one time; nothing where that cannot be read."""
    try:
        return demand(container_needs(pod))
    except QuantityError:
        return {}


def hold_on(pod: Pod) -> Hold | None:
    """The hold on a pod that lives and is not bound."""
    if pod.spec.node_name or not is_live(pod):
        return None
    try:
        return hold_of(pod)
    except HoldError:
        return None


def decided_at(change: Change) -> datetime | None:
    """When the hold that a change writes was decided, as it says itself; None where none is written."""
    before, after = change.pods or (None, None)
    hold = hold_on(after) if after else None
    if hold is None or (before is not None and hold_on(before) == hold):
        return None
    return hold.at


def holds(state: State) -> Mapping[Uid, Hold]:
    """Uid -> the hold on a pod that lives and is not bound."""
    unbound = state.by_node.get("", NOBODY)

    def found() -> Mapping[Uid, Hold]:
        return {uid: hold for uid, pod in unbound.pods.items() if (hold := hold_on(pod))}

    return unbound.reckoned("holds", found)


def kept(state: State) -> Mapping[Uuid, frozenset[Uid]]:
    """Device -> the pods for which it is kept."""

    def found() -> Mapping[Uuid, frozenset[Uid]]:
        uids: dict[Uuid, set[Uid]] = {}
        for uid, hold in holds(state).items():
            for uuid in hold.devices:
                uids.setdefault(uuid, set()).add(uid)
        return {uuid: frozenset(found) for uuid, found in uids.items()}

    return state.by_node.get("", NOBODY).reckoned("kept", found)


def claimed(state: State) -> Mapping[tuple[str, str], frozenset[Uid]]:
    """(node, name in its slices) -> the pods that are not bound and whose claims have the device already."""
    unbound = state.by_node.get("", NOBODY)

    def found() -> Mapping[tuple[str, str], frozenset[Uid]]:
        uids: dict[tuple[str, str], set[Uid]] = {}
        for uid, pod in unbound.pods.items():
            for one in pod.claims.held if pod.claims else ():
                uids.setdefault((one.node, one.device), set()).add(uid)
        return {key: frozenset(found) for key, found in uids.items()}

    return unbound.reckoned("claimed", found)


@dataclass(frozen=True)
class Floor:
    """Devices, holders and holds of all nodes of a state."""

    state: State
    holders: Mapping[Uuid, frozenset[Uid]]
    """The pods that hold a device."""
    kept: Mapping[Uuid, frozenset[Uid]]
    """The pods for which a device is kept."""
    murky: frozenset[str]
    """Nodes on which some pod holds devices and it is unknown which."""

    def usable(self, node: str, model: str) -> frozenset[Uuid]:
        """Healthy devices of a model on a node."""
        known = self.state.nodes.get(node)
        text = known.metadata.annotation(names.INVENTORY) if known else None
        return _usable(text, model) if text else frozenset()


@dataclass(frozen=True)
class Plot:
    """Who holds what on one node."""

    holders: Mapping[Uuid, frozenset[Uid]]
    is_murky: bool
    """Whether some pod holds devices and it is unknown which."""


def floor_of(state: State) -> Floor:
    """The devices of a state."""
    plots = {name: plot_of(name, state) for name in state.by_node}
    holders: dict[Uuid, frozenset[Uid]] = {}
    for plot in plots.values():
        for uuid, uids in plot.holders.items():
            holders[uuid] = holders[uuid] | uids if uuid in holders else uids
    murky = frozenset(name for name, plot in plots.items() if plot.is_murky)
    return Floor(state=state, holders=holders, kept=kept(state), murky=murky)


def plot_of(name: str, state: State) -> Plot:
    """The devices of one node in a state."""
    group, node = state.by_node.get(name, NOBODY), state.nodes.get(name)
    text = node.metadata.annotation(names.DRIFT) if node else None
    return group.reckoned(("plot", text), lambda: _plot(group, node))


def _plot(group: Group, node: Node | None) -> Plot:
    holders: dict[Uuid, set[Uid]] = {}
    is_murky, real = False, drifted(node)
    for uid, pod in group.pods.items():
        if is_bound(pod):
            devices = real.get(uid, assigned(pod))
            is_murky = is_murky or bool(not devices and needed(pod))
            for uuid in devices:
                holders.setdefault(uuid, set()).add(uid)
    return Plot({uuid: frozenset(uids) for uuid, uids in holders.items()}, is_murky)


SELECTOR_ANNOTATIONS: Final = (names.NOT_MODEL, names.MIN_MEMORY, names.UUID, names.NOT_UUID)
"""Annotations by which a pod says which devices will not do; of models a booked pod has its booking's."""


def selected(pod: Pod, node: str, state: State, found: frozenset[Uuid]) -> frozenset[Uuid]:
    """Those of some devices of a node that meet the pod's request, and that its claims accept."""
    if pod.claims and pod.claims.accepted is not None:
        found &= pod.claims.accepted.union(*(way.accepted for way in pod.claims.ways))
    texts = tuple(pod.metadata.annotation(key) or "" for key in SELECTOR_ANNOTATIONS)
    known = state.nodes.get(node)
    text = known.metadata.annotation(names.INVENTORY) if known else None
    return found & _selected(text or "", texts) if any(texts) else found


@lru_cache(maxsize=4096)
def _selected(text: str, texts: tuple[str, ...]) -> frozenset[Uuid]:
    not_models, memory, uuids, not_uuids = texts
    try:
        least = mebibytes(memory or "0")
    except QuantityError:
        least = 0
    return frozenset(
        device.uuid
        for device in (_advertised(text) if text else ())
        if device.memory >= least
        and device.model not in {names.model_label(one) for one in _parts(not_models)}
        and (not _parts(uuids) or device.uuid in _parts(uuids))
        and device.uuid not in _parts(not_uuids)
    )


def _parts(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


@lru_cache(maxsize=4096)
def _usable(text: str, model: str) -> frozenset[Uuid]:
    return frozenset(d.uuid for d in _advertised(text) if d.is_healthy and d.model == model)


def advertised_devices(node: Node) -> tuple[Device, ...]:
    """The devices of a node that can be booked: whole GPUs, and the parts of those that are cut."""
    text = node.metadata.annotation(names.INVENTORY)
    return _advertised(text) if text else ()


@lru_cache(maxsize=4096)
def _advertised(text: str) -> tuple[Device, ...]:
    try:
        devices = decode_inventory(text)
    except InventoryError:
        return ()
    cut = {device.parent for device in devices}
    return tuple(d for d in devices if d.uuid not in cut)


def device_faults(pod: Pod, hold: Hold, state: State, floor: Floor, *, model: str) -> Iterator[str]:
    """What is wrong with the devices of a hold, apart from how many they are."""
    devices = set(hold.devices)
    for uuid in sorted(devices - floor.usable(hold.node, model)):
        yield f"{uuid} is no healthy {model} of the node"
    for uuid in sorted(devices - selected(pod, hold.node, state, frozenset(devices))):
        yield f"{uuid} is not what the pod requests"
    for uuid in sorted(devices):
        if floor.kept.get(uuid, frozenset()) - {pod.metadata.uid}:
            yield f"{uuid} is kept for another pod"
