"""A small calendar, and answers about it that are found by trying everything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache

import msgspec

from booking.server.availability.calendars import calendar_of
from booking.server.availability.planned_capacity import PlannedCapacities
from booking.server.availability.replan import Outcome, replanned
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import CapacityRequest, FreeCapacity, Placement
from booking.server.records import Place, Record
from booking.server.store_records import Block
from cluster.fake.clock import START
from cluster.objects.bookings import Topology
from tests.fakes.objects import A100
from tests.fakes.records import a_record

HOUR = timedelta(hours=1)


def hour(number: int) -> datetime:
    return START + number * HOUR


def a_block(node: str, start: int, end: int, count: int | None = None, model: str | None = None) -> Block:
    return Block(
        id=f"m-{node}-{start}",
        node=node,
        model=model,
        count=count,
        start=hour(start),
        end=hour(end),
        reason="new fans",
        created_by="alice",
        created=START,
    )


@dataclass(frozen=True)
class Lasting:
    """Any start from an instant on, for a fixed length."""

    not_before: datetime
    length: timedelta

    def start_at(self, moment: datetime) -> datetime:
        return moment

    def end_of(self, start: datetime) -> datetime:
        return start + self.length


@dataclass
class World:
    """Bookings of one model, written as the service writes them."""

    devices: dict[str, int]
    blocks: list[Block] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    pins: dict[str, dict[str, int]] = field(default_factory=dict)
    now: datetime = START
    number: int = 0
    """Of bookings that were made."""
    offered: int = 0
    """MiB that each device offers to shares."""

    @property
    def capacity(self) -> Capacity:
        memories = {A100: self.offered} if self.offered else {}
        return Capacity({A100: dict(self.devices)}, pins=self.pins, memories=memories)

    def free_capacity(self, changing: Record | None = None) -> FreeCapacity:
        calendar = calendar_of(self.records.values())
        capacities = PlannedCapacities(
            capacity=self.capacity,
            now=self.now,
            calendar_of=lambda _model: calendar,
            blocks=self.blocks,
            changing=changing,
        )
        return capacities(A100)

    def book(
        self,
        start: int,
        end: int,
        count: int = 1,
        topology: Topology = "single-node",
        *,
        memory: int | None = None,
    ) -> Record | None:
        request = a_record(
            id=f"b-{self.number}",
            start=hour(start),
            end=hour(end),
            count=count,
            topology=topology,
            created=self.now,
            memory=memory,
        )
        booked = self.ask(request)
        self.number += booked is not None
        return booked

    def ask(self, request: Record) -> Record | None:
        """The booking as it is stored, if there is room for it."""
        wanted = CapacityRequest(count=request.count, topology=request.topology, memory=request.memory)
        placing = self.free_capacity().place(wanted, request.start, request.end)
        return None if placing is None else self.store(request, placing)

    def store(self, record: Record, placing: Placement) -> Record:
        self.records[record.id] = msgspec.structs.replace(record, plan=placing.plan)
        for key, plan in placing.moved.items():
            self.records[key] = msgspec.structs.replace(self.records[key], plan=plan)
        return self.records[record.id]

    def keep(self) -> Outcome:
        outcome = replanned(
            A100, calendar_of(self.records.values()), self.capacity, self.now, blocks=self.blocks
        )
        for key, plan in outcome.plans.items():
            self.records[key] = msgspec.structs.replace(self.records[key], plan=plan)
        return outcome

    def spoilt(self, without: frozenset[str] = frozenset()) -> str | None:
        """The fault in the stored booking plan from now on, None where it holds."""
        live = [r for r in self.records.values() if r.end > self.now and r.id not in without]
        for record in live:
            if sum(place.count for place in record.plan) != record.count:
                return f"{record.id} has no place: {record.plan}"
            if record.topology == "single-node" and len(record.plan) != 1:
                return f"{record.id} is torn apart: {record.plan}"
        instants = {self.now, *(r.start for r in live), *(b.start for b in self.blocks)}
        for instant in sorted(instants):
            for node, count in self.devices.items():
                load = sum(
                    place.count
                    for record in live
                    if record.start <= instant < record.end
                    for place in record.plan
                    if place.node == node
                )
                left = count - min(count, blocked(self.blocks, node, instant))
                if instant >= self.now and load > left:
                    return f"{load} of {left} devices of {node} are planned at {instant}"
        return None


def blocked(blocks: Sequence[Block], node: str, instant: datetime) -> int:
    return sum(
        99 if block.count is None else block.count
        for block in blocks
        if block.node == node and block.start <= instant < block.end
    )


def is_possible(
    records: Sequence[Record],
    devices: Mapping[str, int],
    blocks: Sequence[Block] = (),
    bound: Mapping[str, tuple[Place, ...]] | None = None,
) -> bool:
    """Whether all of these could be honoured, by trying everything; ``bound``: id -> where it must be."""
    wanted: list[tuple[Record, int, str | None]] = []
    for record in sorted(records, key=lambda one: (one.start, one.id)):
        homes: list[str | None] = [p.node for p in (bound or {}).get(record.id, ()) for _ in range(p.count)]
        if record.topology == "single-node":
            wanted.append((record, record.count, homes[0] if homes else None))
        else:
            homes += [None] * (record.count - len(homes))
            wanted += [(record, 1, home) for home in homes]
    instants = sorted({record.start for record in records} | {block.start for block in blocks})

    @cache
    def search(index: int, placed: tuple[str, ...]) -> bool:
        if index == len(wanted):
            return True
        record, size, home = wanted[index]
        for node, count in devices.items():
            if home not in {None, node}:
                continue
            there = [wanted[i] for i, at in enumerate(placed) if at == node]
            if all(
                sum(s for r, s, _ in there if r.start <= instant < r.end) + size
                <= count - min(count, blocked(blocks, node, instant))
                for instant in instants
                if record.start <= instant < record.end
            ) and search(index + 1, (*placed, node)):
                return True
        return False

    return search(0, ())
