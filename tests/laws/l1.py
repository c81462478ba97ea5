"""L1: a device is held whole by one pod, or in shares by several that fit on it together, all in one mode.

Two things are watched. **Naming**: a write of devices on a bound pod (a Binding) may name none that
another living pod holds, by drift or else by what was assigned to it. **Having**: two pods that run must not
have one device, by the kubelet's checkpoint where it is at hand, else by drift and assignment. Both are of
GPUs, whichever slot of one a pod has, and pods that share one may have it together. Two bound pods
may name one device while only one of them runs with it (ADR 8): the other is held back or gets another.
Where another plugin gives out replicas, what one pod has is a turn on a GPU, and the GPU is nobody's.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from cluster import names
from cluster.objects.inventory import is_replica
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.slots import physical
from deviceplugin.allocation.pod_devices import PodDevices
from tests.laws.changes import Change
from tests.laws.devices import advertised_devices, assigned, drifted, held, is_bound, plot_of
from tests.laws.groups import NOBODY, Group
from tests.laws.shares import may_share
from tests.laws.state import State

LAW: Final = "L1"

Doubles = Mapping[tuple[str, ...], str]
"""(Device, uids) -> the breach, as a sentence."""


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
        self._seen: dict[str, tuple[Group, str | None, PodDevices | None]] = {}
        self._on: dict[str, Mapping[str, frozenset[str]]] = {}
        """Node -> device -> pods that run with it there."""
        self._where: dict[str, set[str]] = {}
        """Device -> nodes on which pods run with it."""
        self._double: dict[str, frozenset[str]] = {}
        """Device -> its users, where there is more than one."""

    def doubles(self, state: State, kubelets: Mapping[str, PodDevices]) -> Doubles:
        """Devices of which pods that run have more than there is."""
        for node in self._seen.keys() | state.by_node.keys():
            there = state.nodes.get(node)
            text = there.metadata.annotation(names.DRIFT) if there else None
            self._recount(node, (state.by_node.get(node, NOBODY), text, kubelets.get(node)), state)
        return {
            (uuid, *sorted(uids)): f"{uuid} is in use by {_keys(uids, state)} at once."
            for uuid, uids in self._double.items()
        }

    def _recount(self, node: str, now: tuple[Group, str | None, PodDevices | None], state: State) -> None:
        """Count the devices in use on a node, unless nothing has changed that they depend on."""
        before = self._seen.get(node)
        if before and before[0] is now[0] and before[1] == now[1] and before[2] is now[2]:
            return
        old, new = self._on.get(node, {}), _having_on(now[0], state, now[2])
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
        if len(users) > 1 and not may_share(uuid, (state.pods[uid] for uid in users), state):
            self._double[uuid] = users
        if not there:
            del self._where[uuid]


def _having_on(group: Group, state: State, kubelet: PodDevices | None) -> Mapping[str, frozenset[str]]:
    """Device -> pods that run with it on a node."""
    uids: dict[str, set[str]] = {}
    for uid, pod in group.pods.items():
        if is_bound(pod) and pod.status.phase == "Running":
            has = kubelet.of(uid) if kubelet and uid in kubelet.uids else held(pod, state)
            node = state.nodes.get(pod.spec.node_name or "")
            for uuid in has if node and _gives_turns(node) else map(physical, has):
                uids.setdefault(uuid, set()).add(uid)
    return {uuid: frozenset(users) for uuid, users in uids.items()}


def _gives_turns(node: Node) -> bool:
    """Whether another plugin gives out turns on its GPUs: each turn is a device of its own, not its GPU."""
    return any(map(is_replica, advertised_devices(node)))


def _keys(uids: Iterable[str], state: State) -> str:
    return " and ".join(sorted(state.pods[uid].key for uid in uids))
