"""Keeps the stored booking plan valid while nodes change, and writes on Nodes what it means. One thread.

That is maintenance, and that a cluster autoscaler must not remove a node that a booking needs.

Level-triggered: each round compares what is stored with what is available, and writes the difference.
While the state of the cluster is not known, nothing is moved (law L6).
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import structlog

from booking.server.availability.calendars import Calendars
from booking.server.availability.node_keeping import NodeMarks, change_of, needed
from booking.server.availability.replan import replanned
from booking.server.capacity.capacity import Capacity
from booking.server.errors import StoreError
from booking.server.records import Place
from booking.server.store import Reading, Store, Writing
from booking.server.store_records import Block
from cluster import names
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import NODES
from cluster.objects.maintenance import MaintenanceBlock, encode_blocks
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

EVERY: Final = 2.0
"""Seconds between two rounds."""


class Cluster(Protocol):
    """The state of the cluster, as far as it is known."""

    def capacity(self) -> Capacity:
        """The GPUs that can be guaranteed, by model and node."""
        ...

    def unready_reason(self) -> str | None:
        """Why the capacity is not known now, None when it is."""
        ...

    def blocked(self) -> Mapping[str, str]:
        """Node -> the text of its maintenance annotation, for every node."""
        ...

    def autoscaler_marks(self) -> Mapping[str, NodeMarks]:
        """Node -> what it says to autoscalers, for every node."""
        ...

    def covered_nodes(self) -> frozenset[str]:
        """The nodes on which pods of bookings run."""
        ...


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """Numbers of bookings and GPUs, and of bookings that cannot be kept: for metrics."""

    at_risk: int
    """Bookings that cannot be kept at present."""
    gpus: Mapping[str, int]
    """Model -> whole healthy GPUs that can be guaranteed."""
    booked: Mapping[str, int]
    """Model -> GPUs of the running bookings; those that share one count it once."""


class PlanController:
    """Runs the rounds. ``run`` is the body of a thread."""

    def __init__(
        self,
        kube: Kube,
        store: Store,
        clock: Clock,
        cluster: Cluster,
        *,
        moved: Callable[[], None],
        keeps_ahead: timedelta | None = None,
    ) -> None:
        """Create it.

        Args:
            kube: writes annotations of Nodes.
            store: has the bookings.
            clock: the time.
            cluster: the state of the nodes.
            moved: called when plans have changed and the mirror must write them.
            keeps_ahead: nodes of bookings that start within this are kept from autoscalers; None: none are.
        """
        self._kube, self._store, self._clock, self._cluster = kube, store, clock, cluster
        self._moved, self._keeps_ahead = moved, keeps_ahead
        self._needed: frozenset[str] = frozenset()
        self._calendars = Calendars()
        self._seen: tuple[object, ...] = ()
        self.status: PlanStatus | None = None
        """The result of the last round, at most a minute ago; None while the state of the cluster is not
        known."""

    def run(self, stop: threading.Event) -> None:
        """Run one round after the other until ``stop`` is set."""
        while not self._clock.wait(stop, EVERY):
            self.round()

    def round(self) -> None:
        """Bring plan and maintenance blocks up to date once; errors of the database are logged."""
        if self._cluster.unready_reason():
            self._forget()
            return
        try:
            self._keep()
            self._write_blocks()
            self._keep_nodes()
        except StoreError as error:
            self._forget()
            log.warning("the booking database cannot be used, trying again", error=str(error))
        except ApiError as error:
            log.warning("annotations of nodes could not be written, trying again", error=str(error))

    def _keep(self) -> None:
        capacity, now = self._cluster.capacity(), self._clock.now()
        seen = (self._store.change(), capacity, now.replace(second=0, microsecond=0))
        if seen == self._seen:
            return
        plans, status = self._store.read(lambda reading: self._judged(reading, capacity))
        if plans:
            plans = self._store.write(lambda writing: self._replan(writing, capacity))
            log.info("bookings were planned in other places", bookings=sorted(plans))
            self._moved()
        self._seen, self.status = seen, status

    def _forget(self) -> None:
        """The state of the plan is unknown; the next round checks everything."""
        self._seen, self.status = (), None

    def _judged(
        self, reading: Reading, capacity: Capacity
    ) -> tuple[dict[str, tuple[Place, ...]], PlanStatus]:
        now = self._clock.now()
        blocks = reading.blocks(start=now)
        plans: dict[str, tuple[Place, ...]] = {}
        booked: dict[str, int] = {}
        nodes: set[str] = set()
        at_risk = 0
        for model in {*capacity.models, *reading.models_ending_after(now)}:
            calendar = self._calendars.of(model, reading, now)
            outcome = replanned(model, calendar, capacity, now, blocks=blocks)
            at_risk += len(outcome.at_risk)
            nodes |= needed(calendar.records.values(), now, self._keeps_ahead or timedelta())
            booked[model] = sum(one.count for one in calendar.loads() if one.start <= now < one.end)
            if model in capacity.devices:
                plans |= outcome.plans
        self._needed = frozenset(nodes)
        gpus = {model: capacity.total(model) for model in capacity.models}
        return plans, PlanStatus(at_risk, gpus, booked)

    def _replan(self, writing: Writing, capacity: Capacity) -> dict[str, tuple[Place, ...]]:
        plans, _ = self._judged(writing, capacity)
        for booking, plan in sorted(plans.items()):
            writing.replan(booking, plan)
        return plans

    def _write_blocks(self) -> None:
        now = self._clock.now()
        blocks = self._store.read(lambda reading: reading.blocks(start=now))
        wanted = texts(blocks)
        for node, known in sorted(self._cluster.blocked().items()):
            text = wanted.get(node, "")
            if text == known:
                continue
            try:
                self._kube.patch(NODES, node, {"metadata": {"annotations": {names.BLOCKS: text or None}}})
            except NotFound:
                continue
            log.info("maintenance blocks were written to the node", node=node, blocks=text)

    def _keep_nodes(self) -> None:
        """Tell autoscalers which nodes bookings need, and take that back from all others."""
        wanted = frozenset[str]()
        if self._keeps_ahead is not None:
            wanted = self._needed | self._cluster.covered_nodes()
        for node, marks in sorted(self._cluster.autoscaler_marks().items()):
            change = change_of(marks, is_needed=node in wanted)
            if change is None:
                continue
            try:
                self._kube.patch(NODES, node, change)
            except (Conflict, NotFound):
                continue  # somebody has written it: the next round sees its new state
            log.info("autoscalers were told whether a node is needed", node=node, needed=node in wanted)


def texts(blocks: list[Block]) -> dict[str, str]:
    """Node -> the text of its annotation."""
    of: dict[str, list[MaintenanceBlock]] = {}
    for block in blocks:
        of.setdefault(block.node, []).append(
            MaintenanceBlock(start=block.start, end=block.end, model=block.model, count=block.count)
        )
    return {node: encode_blocks(some) for node, some in of.items()}
