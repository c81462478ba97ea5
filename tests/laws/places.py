"""Where a booked pod could be served, and what that would cost: for law L3.

What a node is good for, devices aside, is asked of the product's own predicate; devices are counted here.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.decide.scheduler_filters import ClusterObjects, NodePods, checker_for, node_pods_of, other_of
from cluster.objects.hold import Hold
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.laws.devices import Floor, advertised_devices, claimed, holds, plot_of
from tests.laws.groups import NOBODY, Group
from tests.laws.state import State

UNRESPONSIVE_AFTER: Final = timedelta(seconds=75)
"""Law L6."""
HANGS_AFTER: Final = timedelta(minutes=5)
"""Beyond the time that a pod has to stop: what it holds is not waited for then."""


def is_alive(node: str, state: State, now: datetime) -> bool:
    """Whether the agent of a node renews its Lease and has not said that it stops."""
    name = names.node_lease(node)
    silence = state.silence(name, now)
    stopping = name in state.leases and state.leases[name].lease.metadata.annotation(names.STOPPING)
    return silence is not None and silence < UNRESPONSIVE_AFTER and not stopping


class Places:
    """Where pods would be placed in one state, devices aside."""

    def __init__(self, state: State, floor: Floor, now: datetime) -> None:
        self._state = state
        self._now = now
        self._floor = floor
        self._cluster_objects = around_of(state)

    def open_to(self, pod: Pod, among: Iterable[str]) -> Iterator[Node]:
        """Nodes on which the pod would be bound if there were devices; those who are leaving have left."""
        barred = {part.strip() for part in (pod.metadata.annotation(names.BARRED) or "").split(",")}
        for name in among:
            if name not in barred and is_alive(name, self._state, self._now) and self.suits(pod, name):
                yield self._state.nodes[name]

    def suits(self, pod: Pod, node: str, without: frozenset[str] = frozenset()) -> bool:
        """Whether there is room for it on a node once these have left, and who is expected has come."""
        cluster_objects = expecting(pod, node, self._state, self._cluster_objects)
        known = self._state.nodes.get(node)
        return known is not None and checker_for(pod, cluster_objects).why_not(known, without=without) is None


def around_of(state: State) -> ClusterObjects:
    """Nodes and pods of a state. Volumes are not watched: a pod that mounts some suits no node by this."""
    node_pods = {name: load for name, group in state.by_node.items() if name and (load := _load(group))}
    return ClusterObjects(nodes=state.nodes, node_pods=node_pods)


def _load(group: Group) -> NodePods | None:
    """What the pods of a node take of it; None where there are none."""

    def found() -> NodePods | None:
        others = [other for pod in group.pods.values() if (other := other_of(pod)) is not None]
        return node_pods_of(others) if others else None

    return group.reckoned("load", found)


def expecting(pod: Pod, node: str, state: State, cluster_objects: ClusterObjects) -> ClusterObjects:
    """With the other pods for which something is kept on a node, and without those that these wait for."""
    for uid, hold in holds(state).items():
        if hold.node == node and uid != pod.metadata.uid:
            cluster_objects = cluster_objects.placing(state.pods[uid], node, without=frozenset(hold.victims))
    return cluster_objects


def takes_room(victim: Pod, pod: Pod, hold: Hold, state: State) -> bool:
    """Whether the pod would not be placed where devices are kept for it if this victim stayed."""
    node = state.nodes.get(hold.node)
    cluster_objects = expecting(pod, hold.node, state, around_of(state))
    others = frozenset(hold.victims) - {victim.metadata.uid}
    return node is None or checker_for(pod, cluster_objects).why_not(node, without=others) is not None


def for_nothing(pod: Pod, node: str, model: str, state: State, floor: Floor, now: datetime) -> frozenset[str]:
    """Devices that the pod could get there without anybody's harm: free ones, and those of who leaves.

    A pod that terminates and hangs is not waited for. None of a node where it is unknown what some pod holds.
    What a claim has is not free, though its pod is not bound yet.
    """
    there = state.nodes.get(node)
    texts = [there.metadata.annotation(key) if there else None for key in (names.INVENTORY, names.DRIFT)]
    group = state.by_node.get(node, NOBODY)
    leaving = frozenset(uid for uid, other in group.pods.items() if _goes(other, now))
    found = group.reckoned(
        ("for nothing", model, leaving, *texts), lambda: _unneeded(node, model, state, floor, leaving)
    )
    if not found:
        return found
    mine, claims = {pod.metadata.uid}, claimed(state)
    taken = {
        one.uuid
        for one in (advertised_devices(there) if there and claims else ())
        if claims.get((node, one.claimed_as or ""), frozenset()) - mine
    }
    return frozenset(u for u in found - taken if not floor.kept.get(u, frozenset()) - mine)


def _goes(pod: Pod, now: datetime) -> bool:
    until = pod.metadata.deletion_timestamp
    return until is not None and now < until + HANGS_AFTER


def _unneeded(node: str, model: str, state: State, floor: Floor, leaving: frozenset[str]) -> frozenset[str]:
    """Devices of a node that nobody holds but who leaves."""
    if node in floor.murky:
        return frozenset()
    holders = plot_of(node, state).holders
    return frozenset(uuid for uuid in floor.usable(node, model) if leaving.issuperset(holders.get(uuid, ())))
