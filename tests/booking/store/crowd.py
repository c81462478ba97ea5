"""Sixteen writers on a tight calendar, and the oracle that judges every answer by brute force.

Each answer is judged by the states that its transaction can have seen: the numbers of the newest change
before the question and after the answer enclose it. What a state is, is built again from the answers alone.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET

from booking.calendar import peak
from booking.capacity import Capacity
from booking.errors import RefusedError
from booking.policy.limits import Limits
from booking.records import BookingRequest, Change, Record
from booking.service import BookingService
from booking.spans import Span
from booking.store import Store, open_store
from cluster.fake.clock import FakeClock
from cluster.runtime.clock import Clock
from tests.fakes.objects import A100
from tests.fakes.principals import somebody
from tests.fakes.records import day

WRITERS: Final = 16
GPUS: Final = 4
DAYS: Final = 40
LONGEST: Final = 8
CAPACITY: Final = Capacity({A100: {"n0": GPUS}})
LIMITS: Final = Limits(cooldown=Span(), shortest=Span(seconds=3600))
LONG: Final = 2000
"""Days in which there is always room for whoever is killed again and again."""
CROWD: Final = 3
"""People whom every writer is sometimes: they have one booking at a time."""


class Dice:
    """The same numbers for the same seed."""

    def __init__(self, *seed: int) -> None:
        self._seed = seed
        self._thrown = 0

    def below(self, most: int) -> int:
        """The next one, from 0 on."""
        self._thrown += 1
        return int.from_bytes(sha256(repr((self._seed, self._thrown)).encode()).digest()[:8]) % most


@dataclass(frozen=True)
class Wanted:
    """So many GPUs in a span, for somebody; ``changing`` is out of its own way."""

    user: str
    start: datetime
    end: datetime
    count: int
    changing: str = ""


@dataclass(frozen=True)
class Refusal:
    """What was not granted, and between which changes."""

    wanted: Wanted
    before: int
    after: int


@dataclass
class Told:
    """Everything that was answered."""

    kept: dict[int, Record] = field(default_factory=dict)
    """Change -> a booking as that change has left it."""
    answered: dict[int, datetime] = field(default_factory=dict)
    """Change -> when that was told: what a booking has got then, it has from then on."""
    refused: list[Refusal] = field(default_factory=list)

    def states(self) -> list[list[Record]]:
        """What was booked after each change, from none on."""
        newest: dict[str, Record] = {}
        found: list[list[Record]] = [[]]
        for change in range(1, max(self.kept, default=0) + 1):
            if change in self.kept:
                newest[self.kept[change].id] = self.kept[change]
            found.append([record for record in newest.values() if record.cancelled is None])
        return found

    def times(self, verb: str) -> int:
        """How often something was done: ``create``, ``change``, ``cancel`` or ``release``."""
        seen: set[str] = set()
        verbs = []
        for _, record in sorted(self.kept.items()):
            done = "change" if record.id in seen else "create"
            verbs.append("cancel" if record.cancelled else "release" if record.released else done)
            seen.add(record.id)
        return verbs.count(verb)


def a_service(store: Store, clock: Clock | None = None) -> BookingService:
    """The whole service, at the clock's start."""
    return BookingService(store, clock or FakeClock(), LIMITS, lambda: CAPACITY)


def a_wish(dice: Dice, days: int = DAYS) -> BookingRequest:
    """In the next weeks, for which there are far more wishes than GPUs; one of three is for today."""
    start = None if dice.below(3) == 0 else day(1 + dice.below(days))
    return BookingRequest(
        model=A100,
        start=start,
        end=start + timedelta(days=1 + dice.below(LONGEST)) if start else day(1),
        count=1 + dice.below(3),
        topology="any",
    )


def a_change(dice: Dice, record: Record) -> Change:
    """Longer or shorter, more or fewer GPUs, or at another time, where it has not begun."""
    days = timedelta(days=1 + dice.below(LONGEST))
    if dice.below(3) == 0:
        return Change(count=1 + dice.below(3))
    if dice.below(2) and record.start >= day(1):
        start = day(1 + dice.below(DAYS))
        return Change(start=start, end=start + days)
    return Change(end=max(record.start, day(0)) + days)


class Crowd:
    """Writers at one service, and what they are told."""

    def __init__(self, store: Store, seed: int) -> None:
        self.told = Told()
        self._store = store
        self._seed = seed
        self._clock = FakeClock()
        self._service = a_service(store, self._clock)
        self._together = threading.Barrier(WRITERS)
        self._lock = threading.Lock()

    def write(self, number: int, each: int) -> None:
        """What one of them does."""
        dice = Dice(self._seed, number)
        self._together.wait()
        for attempt in range(each):
            if dice.below(2) == 0:
                self._clock.advance(2)
            common = dice.below(5) == 0
            record = self._create(dice, f"crowd-{dice.below(CROWD)}" if common else f"u{number}-{attempt}")
            if record and dice.below(2):
                record = self._change(dice, record)
            if record and (record.start < day(1) or dice.below(12)):
                self._end(record)

    def _create(self, dice: Dice, user: str) -> Record | None:
        wish, now = a_wish(dice), self._clock.now()
        wanted = Wanted(user, wish.start or now, wish.end, wish.count)
        return self._asked(wanted, lambda: self._service.create(somebody(user), wish))

    def _change(self, dice: Dice, record: Record) -> Record:
        wish = msgspec.structs.asdict(a_change(dice, record))
        said = {name: value for name, value in wish.items() if value is not UNSET}
        becomes = msgspec.structs.replace(record, **said)
        start = max(becomes.start, self._clock.now())
        wanted = Wanted(record.user, start, becomes.end, becomes.count, changing=record.id)
        change = partial(self._service.change, somebody(record.user), record.id, Change(**said))
        return self._asked(wanted, change) or record

    def _end(self, record: Record) -> None:
        has_begun = record.state(self._clock.now()) == "active"
        end = self._service.release if has_begun else self._service.cancel
        self._keep(end(somebody(record.user), record.id))

    def _asked(self, wanted: Wanted, ask: Callable[[], Record]) -> Record | None:
        before = self._store.change()
        try:
            return self._keep(ask())
        except RefusedError:
            refusal = Refusal(wanted, before, self._store.change())
            with self._lock:
                self.told.refused.append(refusal)
            return None

    def _keep(self, record: Record) -> Record:
        with self._lock:
            self.told.kept[record.change] = record
            self.told.answered.setdefault(record.change, self._clock.now())
        return record


def crowd(store: Store, seed: int, *, each: int) -> Told:
    """Let all writers ask so many times; what they were answered."""
    made = Crowd(store, seed)
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda number: made.write(number, each), range(WRITERS)))
    return made.told


def wrong(store: Store, told: Told) -> Iterator[str]:
    """Everything that is wrong with what was answered and with what is stored."""
    states = told.states()
    stored = store.read(lambda reading: {each.id: each for each in reading.ending_after(day(-1))})
    if {key: _fixed(each) for key, each in stored.items()} != {each.id: _fixed(each) for each in states[-1]}:
        yield "what is stored is not what was answered"
    for change, record in told.kept.items():
        if record.cancelled or record.released:
            continue
        start = max(record.start, told.answered[change])
        wanted = Wanted(record.user, start, record.end, record.count, changing=record.id)
        if _is_hindered(states[change - 1], wanted):
            yield f"granted against the rules: {record}"
        if _most(states[change], start, record.end) > GPUS:
            yield f"overbooked by change {change}: {record}"
    for refusal in told.refused:
        seen = states[refusal.before : refusal.after + 1]
        if not any(_is_hindered(state, refusal.wanted) for state in seen):
            yield f"refused without a reason: {refusal}"


def overbooked(records: Iterable[Record]) -> list[Record]:
    """Bookings in whose time more is booked than there is."""
    kept = list(records)
    return [record for record in kept if peak(kept, record.start, record.end) > GPUS]


def _fixed(record: Record) -> Record:
    """Without what changes when others come: its place in the witness, and with it its number."""
    return msgspec.structs.replace(record, plan=(), change=0)


def _is_hindered(state: list[Record], wanted: Wanted) -> bool:
    others = [each for each in state if each.id != wanted.changing]
    if any(each.user == wanted.user and each.released is None for each in others):
        return True
    return _most(others, wanted.start, wanted.end) + wanted.count > GPUS


def _most(state: list[Record], start: datetime, end: datetime) -> int:
    """Devices that are booked at the fullest instant of a span: it is where one of them begins."""
    there = [each for each in state if each.start < end and each.end > start]
    instants = {start, *(each.start for each in there if each.start > start)}
    return max(sum(each.count for each in there if each.start <= at < each.end) for at in instants)


def main(url: str, seed: int) -> None:
    """Book and cancel for ever, telling each answer: until somebody kills this process."""
    with closing(open_store(url)) as store:
        service, lock = a_service(store), threading.Lock()

        def tell(record: Record) -> None:
            with lock:
                sys.stdout.write(f"{record.id} {int(record.cancelled is not None)}\n")
                sys.stdout.flush()

        def writer(number: int) -> None:
            dice = Dice(seed, number)
            attempt = 0
            while True:
                attempt += 1
                who = somebody(f"u{seed}-{number}-{attempt}")
                try:
                    record = service.create(who, a_wish(dice, LONG))
                except RefusedError:
                    continue
                tell(record)
                if record.start >= day(1) and dice.below(10) < 7:
                    tell(service.cancel(who, record.id))

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(writer, range(WRITERS)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
