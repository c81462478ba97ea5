"""A cache that gets every event late, twice, in another order, or not before the next list.

Events of pods come in any order: besides the watch, binds and notes read them by themselves. Those of nodes
and Bookings come in their order, older states again and again; Bookings are also read ahead of the watch.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.ledger import NodeView
from cluster.fake.clock import FakeClock
from cluster.kube import resources
from cluster.kube.resources import BOOKINGS, PODS
from cluster.objects.assignment import Assignment, devices_of, encode_assignment, encode_drift
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.inventory import encode_inventory, inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, a_node
from tests.properties.history import Machine, Pick, step
from tests.properties.reference import Bind, Known
from tests.properties.world import Kind, ObjectEvent, Versions, annotated, changed, random_devices, random_pod

NODES: Final = ("n0", "n1")
AT_ONCE: Final = 8
"""Pods that are stored at the same time."""
GARBAGE: Final = "{not JSON"


class WatchedCache(Machine):
    """What is stored, what of it has reached the cache, and what it should know by that."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(EPOCH)
        self.versions = Versions()
        self.pods: Kind[Pod] = Kind(self.versions, key="uid")
        self.nodes: Kind[Node] = Kind(self.versions)
        self.bookings: Kind[Booking] = Kind(self.versions)
        self.created = 0
        self.begin()

    def begin(self) -> None:
        """A process that knows nothing yet."""
        self.cache = ClusterCache(self.clock)
        self.known = Known()
        self.tombstones: dict[str, int] = {}
        self.bookings_version = -1
        """Version up to which list and watch have reported every Booking."""

    # --- what happens to pods --------------------------------------------------------------------------
    @step(3)
    def a_pod_is_created(self, pick: Pick) -> str:
        if len(self.pods.stored) >= AT_ONCE:
            return self.a_pod_vanishes(pick)
        self.created += 1
        born = self.clock.now() - timedelta(seconds=pick.between(0, 5))
        pod = self.pods.put(random_pod(pick, f"p{self.created}", born))
        return pod.metadata.name

    @step(3)
    def a_pod_is_bound(self, pick: Pick) -> str:
        waiting = [pod for pod in self.pods.items if not pod.spec.node_name]
        if not waiting:
            return "there is none"
        pod, node = pick.one(waiting), pick.one(NODES)
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        text = {4: None, 5: GARBAGE}.get(pick.between(0, 5), encode_assignment(self.devices(pick, node)))
        self.pods.put(annotated(bound, names.ASSIGNED, text))
        return f"{pod.metadata.name} on {node} with {text}"

    def devices(self, pick: Pick, node: str) -> Assignment:
        """Any devices of a node, in one or two containers."""
        stored = self.nodes.stored.get(node)
        there: list[str] = []
        if stored and stored.metadata.annotation(names.INVENTORY) != GARBAGE:
            there = [device.uuid for device in inventory_of(stored)]
        arbitrary, first, number = pick.many(4, 4, 3)
        some = (
            pick.some([*there, f"GPU-{node}-9"]) if arbitrary == 3 else there[first : first + 1 + number // 2]
        )
        return {"c0": tuple(some), "c1": tuple(some[:1])} if len(some) > 2 else {"c0": tuple(some)}

    @step(3)
    def something_is_kept_for_a_pod(self, pick: Pick) -> str:
        waiting = [pod for pod in self.pods.items if not pod.spec.node_name]
        if not self.pods.stored:
            return "there is none"
        pod, node = pick.one(waiting or self.pods.items), pick.one(NODES)
        what, second = pick.many(6, 4)
        at = EPOCH + timedelta(seconds=second) if second else None
        devices = tuple(devices_of(self.devices(pick, node)))
        text = encode_hold(Hold(node=node, devices=tuple(sorted(devices)), at=at))
        self.pods.put(annotated(pod, names.HOLD, {4: None, 5: GARBAGE}.get(what, text)))
        return f"{pod.metadata.name}: {text}"

    @step(2)
    def a_pod_is_deleted(self, pick: Pick) -> str:
        if not self.pods.stored:
            return "there is none"
        pod = pick.one(self.pods.items)
        self.pods.put(changed(pod, deletion_timestamp=self.clock.now()))
        return pod.metadata.name

    @step()
    def a_pod_ends(self, pick: Pick) -> str:
        if not self.pods.stored:
            return "there is none"
        pod = pick.one(self.pods.items)
        phase = pick.one(("Succeeded", "Failed"))
        self.pods.put(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase)))
        return pod.metadata.name

    @step(2)
    def a_pod_vanishes(self, pick: Pick) -> str:
        if not self.pods.stored:
            return "there is none"
        pod = pick.one(self.pods.items)
        self.pods.drop(pod)
        return pod.metadata.name

    # --- what happens to nodes -------------------------------------------------------------------------
    @step(2)
    def an_agent_publishes(self, pick: Pick) -> str:
        name, readable = pick.one(NODES), pick.between(0, 19)
        node = self.nodes.stored.get(name) or a_node(name, uid=f"uid-{name}-{self.versions.newest}")
        text = encode_inventory(random_devices(pick, name)) if readable < 19 else GARBAGE
        self.nodes.put(annotated(node, names.INVENTORY, text))
        return f"{name}: {text}"

    @step(2)
    def an_agent_reports_drift(self, pick: Pick) -> str:
        if not self.nodes.stored:
            return "there is no node"
        node = pick.one(self.nodes.items)
        pods = pick.some(self.pods.items)
        drift = {pod.metadata.uid: self.devices(pick, node.metadata.name) for pod in pods[:2]}
        text = {8: None, 9: GARBAGE}.get(pick.between(0, 9), encode_drift(drift))
        self.nodes.put(annotated(node, names.DRIFT, text))
        return f"{node.metadata.name}: {text}"

    @step()
    def a_node_is_removed(self, pick: Pick) -> str:
        if not self.nodes.stored:
            return "there is none"
        node = pick.one(self.nodes.items)
        self.nodes.drop(node)
        return node.metadata.name

    # --- what reaches the cache ------------------------------------------------------------------------
    @step(10)
    def the_watch_delivers(self, pick: Pick) -> str:
        return "; ".join(self._deliver(pick) for _ in range(pick.between(1, 3)))

    def _deliver(self, pick: Pick) -> str:
        kind = pick.one([kind for kind in (self.pods, self.nodes, self.bookings) if kind.pending] or [None])
        if kind is None:
            return "nothing is new"
        event = kind.deliver(pick.between(0, len(kind.pending) - 1) if kind is self.pods else 0)
        return self.apply_event(event)

    @step(3)
    def it_repeats_an_event(self, pick: Pick) -> str:
        event = pick.one((self.pods, self.nodes, self.bookings)).again(pick)
        return self.apply_event(event) if event else "nothing was delivered"

    @step()
    def late_events_are_lost(self, pick: Pick) -> str:
        kind = pick.one((self.pods, self.nodes, self.bookings))
        lost, kind.pending = len(kind.pending), []
        if kind is not self.pods:
            # Of one that was removed and made again no earlier life is reported once its removal was lost:
            # that ends the watch, and the next one begins later.
            kind.delivered = []
        return str(lost)

    @step()
    def everything_is_listed(self, _pick: Pick) -> None:
        self.catch_up()

    @step()
    def a_new_process_goes_on(self, _pick: Pick) -> None:
        self.begin()
        for kind in (self.pods, self.nodes, self.bookings):
            kind.pending, kind.delivered = [], []
        self.catch_up()

    def catch_up(self) -> None:
        """Lists of everything."""
        version = self.versions.newest
        self.cache.of(resources.NODES).replace(self.nodes.items)
        self.known.nodes = dict(self.nodes.stored)
        self.cache.of(BOOKINGS).replace(self.bookings.items, str(version))
        self.bookings_version = version
        self.known.bookings = dict(self.bookings.stored)
        self.cache.of(PODS).replace(self.pods.items, str(version))
        for uid in set(self.known.pods) - set(self.pods.stored):
            self.bury(uid, version)
        for pod in self.pods.items:
            self.learn(pod)
        # Late events of pods of which nobody had an event before the list: only a watch has those, and it
        # begins after the list.
        for kind in (self.nodes, self.bookings):
            kind.pending, kind.delivered = [], []
        self.pods.pending = [event for event in self.pods.pending if self.is_known(event.obj)]
        self.pods.delivered = [event for event in self.pods.delivered if self.is_known(event.obj)]

    def is_known(self, pod: Pod) -> bool:
        """Whether the cache has had an event of a pod."""
        return pod.metadata.uid in self.known.pods or pod.metadata.uid in self.tombstones

    def apply_event(self, event: ObjectEvent[Pod] | ObjectEvent[Node] | ObjectEvent[Booking]) -> str:
        """Give an event to the cache, and note what it should know by it."""
        obj = event.obj
        if isinstance(obj, Pod):
            self.report(PODS, obj, gone=event.gone)
            self.bury(obj.metadata.uid, event.version) if event.gone else self.learn(obj)
        elif isinstance(obj, Node):
            self.report(resources.NODES, obj, gone=event.gone)
            self.apply_in_order(self.nodes, self.known.nodes, event)
        else:
            self.report(BOOKINGS, obj, gone=event.gone)
            self.apply_in_order(self.bookings, self.known.bookings, event)
            self.bookings_version = event.version if event.gone else self.bookings_version
        gone = " is gone" if event.gone else ""
        return f"{obj.metadata.name}{gone} in version {event.version}"

    def report(self, resource: resources.Resource[resources.T], obj: resources.T, *, gone: bool) -> None:
        """As a reflector does."""
        store = self.cache.of(resource)
        (store.remove if gone else store.upsert)(obj)

    def apply_in_order(self, kind: Kind[Any], known: dict[str, Any], event: ObjectEvent[Any]) -> None:
        """An event of a kind that comes in order: what came before a removal never comes after it."""
        name = event.obj.metadata.name
        if event.gone:
            known.pop(name, None)
            kind.delivered = [one for one in kind.delivered if one.obj.metadata.name != name]
        elif name not in known or int(known[name].metadata.resource_version) <= event.version:
            known[name] = event.obj

    # --- what it should know of pods by that -------------------------------------------------------------
    def learn(self, pod: Pod) -> None:
        """The newest event of a pod counts, and its deletion is the last."""
        uid, version = pod.metadata.uid, int(pod.metadata.resource_version)
        mine = self.known.pods.get(uid)
        if version <= self.tombstones.get(uid, -1) or (
            mine and int(mine.metadata.resource_version) > version
        ):
            return
        self.known.pods[uid] = pod
        if pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
            self.known.binds.pop(uid, None)

    def bury(self, uid: str, version: int) -> None:
        """A pod is gone as of this version."""
        mine = self.known.pods.get(uid)
        if mine and int(mine.metadata.resource_version) > version:
            return
        self.tombstones[uid] = max(version, self.tombstones.get(uid, -1))
        self.known.pods.pop(uid, None)
        self.known.binds.pop(uid, None)

    def decide(self, pod: Pod, node: str, assignment: Assignment) -> None:
        """A bind is decided, and is not seen yet."""
        with self.cache.locked() as ledger:
            ledger.assume(pod, node, assignment)
        uid = pod.metadata.uid
        mine = self.known.pods.get(uid)
        if uid not in {*self.tombstones, *self.known.binds} and not (mine and self.known.place(mine)):
            self.known.binds[uid] = Bind(pod, node, assignment)


def views(cache: ClusterCache, nodes: Sequence[str] = NODES) -> list[NodeView]:
    """What a cache says of its nodes."""
    with cache.locked() as ledger:
        return [ledger.view(node) for node in nodes]
