"""L1: a device is held whole by one pod, or in shares by several that fit on it together, all in one mode.

Two things are watched. **Naming**: a write of devices on a bound pod (a Binding) may name none that
another living pod holds, by drift or else by what was assigned to it. **Having**: two pods that run must not
have one device, by the kubelet's checkpoint where it is at hand, else by drift and assignment; what it
believes to be prepared for a pod's claims counts beside what their allocations say. Both are of GPUs,
whichever slot of one a pod has, and pods that share one may have it together. Two bound pods
may name one device while only one of them runs with it (ADR 8): the other is held back or gets another.
Where another plugin gives out replicas, what one pod has is a turn on a GPU, and the GPU is nobody's.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cluster import names
from cluster.objects.inventory import is_replica
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.slots import physical
from deviceplugin.allocation.pod_devices import PodDevices
from tests.laws.changes import Change
from tests.laws.claim_states import Believed
from tests.laws.devices import advertised_devices, assigned, drifted, held, is_bound, plot_of
from tests.laws.groups import NOBODY, Group
from tests.laws.shares import may_share
from tests.laws.state import State

LAW: Final = "L1"

Doubles = Mapping[tuple[str, ...], str]
"""(Device, uids) -> the breach, as a sentence."""
Claims = Mapping[str, Believed]
"""Uid of a claim -> what the kubelet says of it."""
NO_CLAIMS: Final[Mapping[str, Claims]] = {}
_NOTES: Final = (names.DRIFT, names.INVENTORY)
"""Annotations of a Node by which it is known who has what."""


def named_twice(change: Change, state: State, _now: datetime) -> Iterator[str]:
    """A write names a device that was assigned to another living pod, which has it.

    The binder wrote that assignment itself, so that no lag excuses it.
    """
    yield from _named(change, state, drift=False)


def named_though_drifted(change: Change, state: State, _now: datetime) -> Iterator[str]:
    """A write names a device that the kubelet gave to another living pod, and its agent has said so."""
    yield from _named(change, state, drift=True)


def _named(change: Change, state: State, *, drift: bool) -> Iterator[str]:
    before, after = change.pods or (None, None)
    if after is None or not is_bound(after):
        return
    named = assigned(after) - (assigned(before) if before is not None and is_bound(before) else frozenset())
    for node in state.by_node if named else ():
        holders = plot_of(node, state).holders
        for uuid in sorted(named & holders.keys()):
            others = holders[uuid] - {after.metadata.uid}
            if others and may_share(uuid, (after, *(state.pods[uid] for uid in others)), state):
                continue
            for uid in others:
                if _is_drifted(uid, node, state) is drift:
                    yield f"{after.key} is given {uuid}, which {state.pods[uid].key} holds."


def _is_drifted(uid: str, node: str | None, state: State) -> bool:
    return uid in drifted(state.nodes.get(node or ""))


def may_matter(change: Change) -> bool:
    """Whether a change may be one of who has what: most are not, and reading every pod costs."""
    before, after = change.before, change.after
    if isinstance(before, Pod) and isinstance(after, Pod):
        return _having(before) != _having(after)
    if isinstance(before, Node) and isinstance(after, Node):
        return before.metadata.annotation(names.DRIFT) != after.metadata.annotation(names.DRIFT)
    return isinstance(change.object, Pod | Node)


def _having(pod: Pod) -> tuple[str | None, ...]:
    return (pod.status.phase, pod.spec.node_name, pod.metadata.annotation(names.ASSIGNED))


class Havings:
    """Who runs with what, kept from state to state: most nodes stay as they were."""

    def __init__(self) -> None:
        self._seen: dict[str, _Causes] = {}
        self._on: dict[str, Mapping[str, frozenset[str]]] = {}
        """Node -> device -> pods that run with it there."""
        self._where: dict[str, set[str]] = {}
        """Device -> nodes on which pods run with it."""
        self._double: dict[str, frozenset[str]] = {}
        """Device -> its users, where there is more than one."""
        self._named: dict[str, dict[str, str]] = {}
        """Node -> name in its slices -> device, also of those that claims do not give any more."""

    def doubles(
        self, state: State, kubelets: Mapping[str, PodDevices], claims: Mapping[str, Claims] = NO_CLAIMS
    ) -> Doubles:
        """Devices of which pods that run have more than there is.

        Args:
            state: the cluster.
            kubelets: node -> what containers have there by device plugins.
            claims: node -> what the kubelet believes to be prepared for claims.
        """
        for node in self._seen.keys() | state.by_node.keys():
            there = state.nodes.get(node)
            notes = tuple(there.metadata.annotation(key) if there else None for key in _NOTES)
            believed = claims.get(node)
            causes = _Causes(state.by_node.get(node, NOBODY), notes, kubelets.get(node), believed)
            self._recount(node, causes, state)
        return {
            (uuid, *sorted(uids)): f"{uuid} is in use by {_keys(uids, state)} at once."
            for uuid, uids in self._double.items()
        }

    def _recount(self, node: str, now: "_Causes", state: State) -> None:
        """Count the devices in use on a node, unless nothing has changed that they depend on."""
        before = self._seen.get(node)
        if before and before.are_those_of(now):
            return
        named = self._named.setdefault(node, {})
        if node in state.nodes:
            devices = advertised_devices(state.nodes[node])
            named.update({one.claimed_as: one.uuid for one in devices if one.claimed_as})
        old, new = self._on.get(node, {}), _having_on(now, _prepared(now.claims or {}, named), state)
        self._seen[node], self._on[node] = now, new
        for uuid in old.keys() - new.keys():
            self._where[uuid].discard(node)
        for uuid in new:
            self._where.setdefault(uuid, set()).add(node)
        for uuid in old.keys() | new.keys():
            self._count(uuid, state)

    def _count(self, uuid: str, state: State) -> None:
        there = self._where[uuid]
        users = frozenset(uid for node in there for uid in self._on[node][uuid])
        self._double.pop(uuid, None)
        if len(users) > 1:
            known = (name for node in there for name, one in self._named[node].items() if one == uuid)
            if not may_share(uuid, (state.pods[uid] for uid in users), state, next(known, None)):
                self._double[uuid] = users
        if not there:
            del self._where[uuid]


@dataclass(frozen=True)
class _Causes:
    """What it depends on who runs with what on a node."""

    group: Group
    notes: tuple[str | None, ...]
    kubelet: PodDevices | None
    claims: Claims | None

    def are_those_of(self, other: "_Causes") -> bool:
        """Whether nothing has changed since."""
        is_same = self.group is other.group and self.kubelet is other.kubelet
        return is_same and self.claims is other.claims and self.notes == other.notes


def _prepared(claims: Claims, named: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    """Uid of a pod -> devices that the kubelet believes to be prepared for its claims."""
    found: dict[str, set[str]] = {}
    for one in claims.values():
        devices = {named[name] for name in one.devices if name in named}
        for uid in one.pods if devices else ():
            found.setdefault(uid, set()).update(devices)
    return {uid: frozenset(devices) for uid, devices in found.items()}


def _having_on(
    now: _Causes, prepared: Mapping[str, frozenset[str]], state: State
) -> Mapping[str, frozenset[str]]:
    """Device -> pods that run with it on a node."""
    uids: dict[str, set[str]] = {}
    kubelet = now.kubelet
    for uid, pod in now.group.pods.items():
        if is_bound(pod) and pod.status.phase == "Running":
            has = kubelet.of(uid) if kubelet and uid in kubelet.uids else held(pod, state)
            node = state.nodes.get(pod.spec.node_name or "")
            given = has if node and _gives_turns(node) else map(physical, has)
            for uuid in {*given, *prepared.get(uid, ())}:
                uids.setdefault(uuid, set()).add(uid)
    return {uuid: frozenset(users) for uuid, users in uids.items()}


def _gives_turns(node: Node) -> bool:
    """Whether another plugin gives out turns on its GPUs: each turn is a device of its own, not its GPU."""
    return any(map(is_replica, advertised_devices(node)))


def _keys(uids: Iterable[str], state: State) -> str:
    return " and ".join(sorted(state.pods[uid].key for uid in uids))
