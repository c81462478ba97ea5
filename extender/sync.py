"""Keeps the picture true: pods, nodes and the agents' Leases, each followed by one reflector.

While one of the three is not synced, or has had no news for 150 s, nothing is filtered or bound (law L6).
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from cluster import names
from cluster.kube.port import Kube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod, asks_for_gpus, is_terminal
from cluster.objects.quantity import QuantityError
from cluster.runtime.clock import Clock
from extender.state import ClusterState

NO_NEWS: Final = 150.0
"""Seconds without an event or bookmark after which the picture is not trusted (law L6)."""

LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""A pod that ends leaves this selection: the watch shows it as deleted."""


class Pods:
    """What happens to pods."""

    def __init__(self, state: ClusterState, scheduler: str) -> None:
        self._state = state
        self._scheduler = scheduler

    def replace(self, items: Sequence[Pod], version: str, /) -> None:
        """All living pods, as of this version: what a bind has read since then is newer, and stays."""
        living = {pod.metadata.uid for pod in items}
        with self._state.locked() as ledger:
            for uid in ledger.pods - living:
                ledger.forget_pod(uid, version)
            self._state.waiting.clear()
            for pod in items:
                self.upsert(pod)

    def upsert(self, pod: Pod, /) -> None:
        """A pod is new or has changed."""
        uid = pod.metadata.uid
        with self._state.locked() as ledger:
            ledger.apply_pod(pod)
            if pod.spec.node_name or is_terminal(pod):
                self._state.waiting.pop(uid, None)
                self._state.drop_remembered(uid)
            elif pod.spec.scheduler_name == self._scheduler and _asks(pod):
                self._state.waiting[uid] = pod

    def remove(self, pod: Pod, /) -> None:
        """A pod is gone or has ended."""
        uid = pod.metadata.uid
        with self._state.locked() as ledger:
            ledger.forget_pod(uid, pod.metadata.resource_version)
            self._state.waiting.pop(uid, None)
            self._state.drop_remembered(uid)


class Nodes:
    """What happens to nodes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def replace(self, items: Sequence[Node], _version: str, /) -> None:
        """All nodes."""
        present = {node.metadata.name for node in items}
        with self._state.locked() as ledger:
            for name in set(ledger.nodes()) - present:
                ledger.forget_node(name)
            for node in items:
                ledger.apply_node(node)

    def upsert(self, node: Node, /) -> None:
        """A node is new or has changed."""
        with self._state.locked() as ledger:
            ledger.apply_node(node)

    def remove(self, node: Node, /) -> None:
        """A node is gone."""
        with self._state.locked() as ledger:
            ledger.forget_node(node.metadata.name)


class Leases:
    """What happens to the agents' Leases."""

    def __init__(self, state: ClusterState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def replace(self, items: Sequence[Lease], _version: str, /) -> None:
        """All Leases of the product's namespace."""
        present = {lease.metadata.name for lease in items}
        with self._state.locked():
            for node in self._state.liveness.nodes():
                if names.node_lease(node) not in present:
                    self._state.liveness.forget_lease(names.node_lease(node))
            for lease in items:
                self.upsert(lease)

    def upsert(self, lease: Lease, /) -> None:
        """A Lease was made or renewed."""
        with self._state.locked():
            self._state.liveness.apply_lease(lease, monotonic=self._clock.monotonic(), now=self._clock.now())

    def remove(self, lease: Lease, /) -> None:
        """A Lease is gone."""
        with self._state.locked():
            self._state.liveness.forget_lease(lease.metadata.name)


class Sync:
    """The three reflectors, and whether they can be trusted."""

    def __init__(
        self, kube: Kube, state: ClusterState, clock: Clock, *, namespace: str, scheduler: str
    ) -> None:
        self._pods = Reflector(kube, PODS, Pods(state, scheduler), clock, field_selector=LIVING)
        self._nodes = Reflector(kube, NODES, Nodes(state), clock)
        self._leases = Reflector(kube, LEASES, Leases(state, clock), clock, namespace=namespace)

    @property
    def threads(self) -> dict[str, Callable[[threading.Event], None]]:
        """Name -> body of a thread that runs until the event is set: one per kind."""
        return {"pods": self._pods.run, "nodes": self._nodes.run, "leases": self._leases.run}

    def age(self) -> float | None:
        """Seconds since the oldest of the three had news, None until all had."""
        ages = [reflector.age() for reflector in (self._pods, self._nodes, self._leases)]
        known = [age for age in ages if age is not None]
        return max(known) if len(known) == len(ages) else None

    def obstacle(self) -> str | None:
        """Why nothing may be decided now, None when it may."""
        for kind, synced, age in (
            ("pods", self._pods.is_synced, self._pods.age()),
            ("nodes", self._nodes.is_synced, self._nodes.age()),
            ("leases", self._leases.is_synced, self._leases.age()),
        ):
            if not synced or age is None:
                return f"The {kind} of the cluster have not been read yet."
            if age > NO_NEWS:
                return f"There has been no news of {kind} from the API server for {NO_NEWS:.0f} seconds."
        return None


def _asks(pod: Pod) -> bool:
    try:
        return asks_for_gpus(pod)
    except QuantityError:
        return False
