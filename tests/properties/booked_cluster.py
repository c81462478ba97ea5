"""A cluster of one model on which people book, run pods with and without a booking, and things break.

The decisions of the booking server and its plan controller, and the cache of the extender; pods and nodes
come to it by hand.
"""

import itertools
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec

from booking.durations import Duration
from booking.eviction.settings import EvictionSettings
from booking.policy.limits import Limits
from booking.server.mirror.plan import spec_of
from booking.server.node_capacity import NodeCapacity
from booking.server.plan_controller import PlanController
from booking.server.records import Record
from booking.server.service import BookingService
from booking.server.store import open_store
from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import BOOKINGS, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod
from extender.state.cluster_state import ClusterState
from tests.fakes.objects import PodBuilder, a100, a_node, a_pod

SIZES: Final = {"n0": 3, "n1": 2, "n2": 1}
POLICY: Final = Limits(
    cooldown=Duration(seconds=0),
    shortest=Duration(seconds=3600),
    longest=Duration(seconds=24 * 3600),
    horizon=Duration(days=1),
)


@dataclass(frozen=True)
class Running:
    """A pod that is bound."""

    builder: PodBuilder
    user: str
    node: str
    devices: tuple[str, ...]
    annotation: str | None = None

    @property
    def stays(self) -> bool:
        """Whether nobody will ever take it away."""
        return bool(self.builder.owner)


class BookedCluster:
    """What is there, and how it reaches the cache."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.folder = tempfile.TemporaryDirectory(prefix=f"places-{secrets.token_hex(4)}-")
        self.store = open_store(f"sqlite:///{Path(self.folder.name) / 'bookings.db'}")
        self.state = ClusterState(self.clock)
        self.nodes = NodeCapacity(self.state, self.clock, EvictionSettings(), unready_reason=lambda: None)
        numbers = itertools.count(100)
        self.service = BookingService(
            self.store, self.clock, POLICY, self.nodes.capacity, new_id=lambda: f"b-{next(numbers)}"
        )
        self.kube = FakeKube(self.clock)
        self.plan_controller = PlanController(
            self.kube, self.store, self.clock, self.nodes, moved=self.mirror
        )
        self.versions = itertools.count(1)
        self.unhealthy: set[str] = set()
        self.pods: dict[str, Running] = {}
        for name in SIZES:
            self.kube.put(NODES, {"metadata": {"name": name}})
        self.apply_nodes()

    def close(self) -> None:
        """Its files are closed."""
        self.store.close()
        self.folder.cleanup()

    # --- applying -----------------------------------------------------------------------------------------
    def apply_nodes(self) -> None:
        """What agents and the plan controller have written on the nodes."""
        for node in self.kube.list(NODES).items:
            name = node.metadata.name
            devices = (a100(index, name, health=self._health(name, index)) for index in range(SIZES[name]))
            node_now = a_node(name, *devices, version=next(self.versions))
            blocks = node.metadata.annotation(names.BLOCKS)
            annotations = {
                **(node_now.metadata.annotations or {}),
                **({names.BLOCKS: blocks} if blocks else {}),
            }
            meta = msgspec.structs.replace(node_now.metadata, annotations=annotations)
            self.state.of(NODES).upsert(msgspec.structs.replace(node_now, metadata=meta))

    def _health(self, node: str, index: int) -> str:
        return "unhealthy" if f"GPU-{node}-{index}" in self.unhealthy else "healthy"

    def mirror(self) -> None:
        """The Booking objects as the store has them."""
        version = str(next(self.versions))
        records = self.store.records_ending_after(self.clock.now() - timedelta(hours=1))
        self.state.of(BOOKINGS).replace([self._object(record, version) for record in records], version)

    def _object(self, record: Record, version: str) -> Booking:
        meta = Meta(name=record.id, uid=f"uid-{record.id}", resource_version=version)
        return Booking(spec=spec_of(record, store_id=self.store.store_id), metadata=meta)

    def keep(self) -> None:
        """The plan controller has reconciled, and what it has written is known."""
        for _ in range(2):
            self.plan_controller.round()
            self.apply_nodes()
        self.mirror()

    def apply(self, name: str, running: Running) -> None:
        """A pod is bound, or has another cover annotation."""
        self.pods[name] = running
        builder = running.builder.on(running.node, {"main": running.devices})
        if running.annotation:
            builder = builder.with_annotation(names.BOOKING, running.annotation)
        self.state.of(PODS).upsert(builder.at(next(self.versions)).obj)

    def wait(self, builder: PodBuilder) -> Pod:
        """A pod is created."""
        pod = builder.at(next(self.versions)).obj
        self.state.of(PODS).upsert(pod)
        return pod

    def drop(self, name: str, builder: PodBuilder) -> None:
        """A pod is gone."""
        self.pods.pop(name, None)
        self.state.of(PODS).remove(builder.at(next(self.versions)).obj)

    # --- seeing ------------------------------------------------------------------------------------------
    @property
    def cover(self) -> Mapping[str, Booking]:
        """Name of each booked pod -> its booking."""
        found = self.state.cover(self.clock.now())
        return {uid.removeprefix("uid-"): booking for uid, booking in found.items()}

    def live(self) -> list[Record]:
        """Bookings that are not over."""
        return list(self.store.records_ending_after(self.clock.now()))

    def at_risk(self) -> frozenset[str]:
        """Which of them cannot be kept."""
        return self.service.at_risk(self.live())

    # --- what the scheduler does -------------------------------------------------------------------------
    def place(self, name: str, user: str, need: int, order: list[str], *, stays: bool = False) -> str | None:
        """Create a pod and bind it where it may be; without a place it is deleted again.

        Args:
            name: the pod's.
            user: to whom it belongs; one that stays belongs to nobody.
            need: devices.
            order: nodes, as they are tried.
            stays: whether nobody will ever take it away.

        Returns:
            Its node.
        """
        created = a_pod(name).asks(need).created(self.clock.now())
        created = created.of_a_daemon_set() if stays else created.of(user)
        pod = self.wait(created)
        request, booking = self.state.request(pod), self.state.cover_of(pod, self.clock.now())
        plan_rejection = self.state.plan_rejection(pod, request)
        for node in order:
            if plan_rejection(node) is not None:
                continue
            found = self._room(node, need, is_booked=booking is not None)
            if found is not None:
                annotation = booking.name if booking else None
                self.apply(name, Running(created, user, node, found, annotation))
                return node
        self.drop(name, created)
        return None

    def _room(self, node: str, need: int, *, is_booked: bool) -> tuple[str, ...] | None:
        """Devices for a pod; for a booked one others leave."""
        held = {uuid: name for name, pod in self.pods.items() if pod.node == node for uuid in pod.devices}
        healthy = [f"GPU-{node}-{index}" for index in range(SIZES[node])]
        healthy = [uuid for uuid in healthy if uuid not in self.unhealthy]
        free = [uuid for uuid in healthy if uuid not in held]
        if is_booked:
            cover = self.cover
            leaving = {name for name, pod in self.pods.items() if name not in cover and not pod.stays}
            victims = [held[uuid] for uuid in healthy if uuid in held and held[uuid] in leaving]
            for victim in dict.fromkeys(victims):
                if len(free) >= need:
                    break
                free += [uuid for uuid in self.pods[victim].devices if uuid in healthy]
                self.drop(victim, self.pods[victim].builder)
        return tuple(free[:need]) if len(free) >= need else None

    def annotate(self) -> Iterator[str]:
        """The reclaimer writes what covers the pods; names of those that are adopted by it."""
        cover = self.cover
        for name, running in list(self.pods.items()):
            annotation = cover[name].name if name in cover else None
            if annotation != running.annotation:
                self.apply(name, replace(running, annotation=annotation))
                if annotation:
                    yield name
