"""What may be booked, worked out by hand: the rules, the sum of devices, and whether plans can be kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from booking.server.capacity.capacity import Capacity
from booking.server.records import BookingRequest, Record
from booking.server.store_records import Block, Exemption
from cluster.fake.clock import START, FakeClock
from tests.properties.history import Machine

TICK: Final = timedelta(minutes=10)
HOUR: Final = timedelta(hours=1)
SECOND: Final = timedelta(seconds=1)
COOLDOWN: Final = 2 * HOUR
SHORTEST: Final = HOUR
LONGEST: Final = 6 * HOUR
LONGER: Final = 9 * HOUR
"""With an exemption."""
HORIZON: Final = 24 * HOUR
TOLERANCE: Final = timedelta(minutes=5)
FIXED_AHEAD: Final = timedelta(seconds=60)
"""What begins so soon is not moved for others."""
LIVE: Final = frozenset({"planned", "active"})


@dataclass(frozen=True)
class Want:
    """What somebody would have: devices in an interval."""

    model: str
    count: int
    start: datetime
    end: datetime
    is_whole: bool


class BookingReference(Machine):
    """The reference of a machine: what has been booked, and what follows from it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(START)
        self.now_there = Capacity({})
        self.books: list[Record] = []
        self.blocks: list[Block] = []
        self.exempt: list[Exemption] = []

    def _wanted(self, request: BookingRequest) -> Want:
        now = self._now()
        start = request.start or now
        if now - TOLERANCE <= start < now:
            start = now
        return Want(
            request.model, request.count, start, request.end, request.topology != "any" and request.count > 1
        )

    def _exists(self, wanted: Want) -> bool:
        total, largest = self.now_there.total(wanted.model), self.now_there.largest(wanted.model)
        return 1 <= wanted.count <= (largest if wanted.is_whole else total)

    def _is_right(self, user: str, request: BookingRequest) -> bool:
        """By the rules and the sum."""
        wanted = self._wanted(request)
        return self._may_book(user, request) and self._exists(wanted) and self._sum_fits(wanted)

    def _limits(self, user: str) -> tuple[timedelta, timedelta]:
        """Longest and cooldown."""
        now = self._now()
        is_exempt = any(each.user == user and each.start <= now < each.end for each in self.exempt)
        return (LONGER, timedelta(0)) if is_exempt else (LONGEST, COOLDOWN)

    def _may_book(self, user: str, request: BookingRequest) -> bool:
        """The rules, as the manual says them."""
        now = self._now()
        longest, cooldown = self._limits(user)
        since, start = request.start or now, self._wanted(request).start
        if not (now <= start < request.end and start <= now + HORIZON):
            return False
        if not SHORTEST <= request.end - since <= longest:
            return False
        mine = [each for each in self.books if each.user == user and each.cancelled is None]
        if any(each.state(now) in LIVE for each in mine):
            return False
        return all(start >= each.end + cooldown for each in mine if cooldown and not each.waived)

    def _may_become(self, mine: Record, requested_start: datetime, wanted: Want, *, gives_back: bool) -> bool:
        """The rules for a change."""
        now = self._now()
        longest, cooldown = self._limits(mine.user)
        start, end, moved = wanted.start, wanted.end, wanted.start != mine.start
        if start >= end or wanted.count < 1:
            return False
        if mine.state(now) == "active" and (moved or end <= now):
            return False
        if mine.state(now) == "planned" and start < now:
            return False
        if end - requested_start < SHORTEST and end - requested_start < mine.end - mine.start:
            return False
        if not gives_back and (end - requested_start > longest or start > max(now + HORIZON, mine.start)):
            return False
        others = [each for each in self.books if each.user == mine.user and each.id != mine.id]
        ends = [each.end for each in others if each.cancelled is None and not each.waived]
        return not (moved and cooldown) or all(start >= each + cooldown for each in ends)

    def _sum_fits(self, wanted: Want, *, without: Record | None = None) -> bool:
        begin = max(wanted.start, self._now())
        return all(
            self._used(wanted.model, instant, without) + wanted.count <= self._there(wanted.model, instant)
            for instant in self._instants(begin, wanted.end)
        )

    def _is_tight(self, model: str, without: Record | None) -> bool:
        """Whether places count besides the sum."""
        wholes = any(
            each.model == model and each.count > 1 and each.topology == "single-node" and each != without
            for each in self._live()
        )
        known = self.now_there.devices.get(model, {})
        return wholes or any(each.end > self._now() and each.node in known for each in self.blocks)

    def _kept(self, model: str) -> frozenset[str]:
        """Ids of the bookings that have the place that their plan says, as long as they last from now on."""
        live = [each for each in self._live() if each.model == model]
        return frozenset(each.id for each in live if not self._is_lost(each) and self._has_room(each, live))

    def _is_lost(self, one: Record) -> bool:
        """Whether its plan has no place for all of it on nodes that are there."""
        known = self.now_there.devices.get(one.model, {})
        there = sum(place.count for place in one.plan if place.node in known)
        is_torn = one.topology == "single-node" and len(one.plan) > 1
        return is_torn or there < one.count or any(place.node not in known for place in one.plan)

    def _has_room(self, one: Record, live: Sequence[Record]) -> bool:
        """Whether no node of its plan is too full at any instant of it."""
        instants = self._instants(max(one.start, self._now()), one.end)
        return all(
            sum(
                place.count
                for each in live
                if each.start <= instant < each.end
                for place in each.plan
                if place.node == node
            )
            <= self._on(one.model, node, instant)
            for instant in instants
            for node in {place.node for place in one.plan}
        )

    def _live(self) -> list[Record]:
        return [each for each in self.books if each.cancelled is None and each.end > self._now()]

    def _used(self, model: str, instant: datetime, without: Record | None = None) -> int:
        return sum(
            each.count
            for each in self.books
            if each.cancelled is None
            and each.model == model
            and each.start <= instant < each.end
            and (without is None or each.id != without.id)
        )

    def _there(self, model: str, instant: datetime) -> int:
        return sum(self._on(model, node, instant) for node in self.now_there.devices.get(model, {}))

    def _on(self, model: str, node: str, instant: datetime) -> int:
        """Devices of a node that are not maintained."""
        has = self.now_there.devices.get(model, {}).get(node, 0)
        blocked = [each for each in self.blocks if each.node == node and each.start <= instant < each.end]
        return max(0, has - sum(has if each.count is None else each.count for each in blocked))

    def _instants(self, start: datetime, end: datetime) -> Sequence[datetime]:
        """Every instant of a span at which something may change, and some more."""
        ticks = (start + number * TICK for number in range(max(0, (end - start) // TICK) + 1))
        edges = (at for each in (*self.books, *self.blocks) for at in (each.start, each.end))
        return sorted({at for at in (start, *ticks, *edges) if start <= at < end})

    def _tick(self) -> datetime:
        now = self.clock.now()
        return START + (now - START) // TICK * TICK

    def _now(self) -> datetime:
        return self.clock.now().replace(microsecond=0)
