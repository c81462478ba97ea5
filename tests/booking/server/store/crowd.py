"""Sixteen writers on a tight calendar, and the oracle that judges every answer by brute force.

Each answer is judged by the states that its transaction can have seen: the numbers of the newest change
before the question and after the answer enclose it. Each state is rebuilt from the answers alone.
In one scenario the sum decides, in the other whether each booking can have a node for all of its GPUs.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.calendar import peak
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.records import BookingChange, BookingRequest, Record
from booking.server.service import BookingService
from booking.server.store import Store, open_store
from cluster.fake.clock import FakeClock
from cluster.objects.bookings import Topology
from cluster.process.clock import Clock
from tests.booking.server.availability.trying import has_a_placement
from tests.booking.server.availability.world import World
from tests.fakes.dice import Dice
from tests.fakes.objects import A100
from tests.fakes.principals import somebody
from tests.fakes.records import a_record, day

WRITERS: Final = 16
DAYS: Final = 40
LONGEST: Final = 8
LIMITS: Final = Limits(cooldown=Duration(), shortest=Duration(seconds=3600))
LONG: Final = 2000
"""Days in which there is always room for a process that is killed again and again."""
EVERY: Final = 0.05
"""Seconds between two reads of the observer."""
MISSED: Final = 1 / 200
"""Of the refusals where a booking needs one node, fewer than this are needless in the mean of many crowds,
and fewer than ``MOST_MISSED`` in any: the search for places has a limit (docs/rules.md)."""
MOST_MISSED: Final = 1 / 50
"""A calendar that misses one booking misses it each time it is requested: one in 88 was seen."""
CROWD: Final = 3
"""Users in whose names every writer sometimes books: they have one booking at a time."""


@dataclass(frozen=True)
class Scenario:
    """The nodes of a cluster, and the requests for their GPUs.

    Args:
        devices: node -> GPUs.
        topology: of all requests.
        most: GPUs of a request.
        begins_today: whether one request of three begins at once. What has begun is no longer moved.
        kept: so many bookings of twelve are not taken back.
    """

    devices: Mapping[str, int]
    topology: Topology
    most: int
    begins_today: bool
    kept: int

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return sum(self.devices.values())


ANYWHERE: Final = Scenario({"n0": 4}, "any", most=3, begins_today=True, kept=1)
ON_ONE_NODE: Final = Scenario({"n0": 4, "n1": 4, "n2": 4}, "single-node", most=4, begins_today=False, kept=6)
SCENARIOS: Final = {"anywhere": ANYWHERE, "on one node": ON_ONE_NODE}


@dataclass(frozen=True)
class Wanted:
    """GPUs in a span for a user; the GPUs of ``changing`` are free for itself."""

    user: str
    start: datetime
    end: datetime
    count: int
    changing: str = ""


@dataclass(frozen=True)
class Refusal:
    """A request that was refused, and the changes between which it was."""

    wanted: Wanted
    before: int
    after: int


@dataclass
class Answers:
    """Everything that was answered."""

    kept: dict[int, Record] = field(default_factory=dict)
    """Change -> a booking as that change has left it."""
    answered: dict[int, datetime] = field(default_factory=dict)
    """Change -> when that was answered: what a booking has got then, it has from then on."""
    refused: list[Refusal] = field(default_factory=list)
    seen: list[tuple[datetime, list[Record]]] = field(default_factory=list)
    """When the store was read, and the bookings in it."""

    def states(self) -> list[list[Record]]:
        """The bookings after each change, from none on."""
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


def a_service(store: Store, scenario: Scenario, clock: Clock | None = None) -> BookingService:
    """The whole service, at the clock's start."""
    capacity = Capacity({A100: dict(scenario.devices)})
    return BookingService(store, clock or FakeClock(), LIMITS, lambda: capacity)


def request_for(dice: Dice, scenario: Scenario, days: int = DAYS) -> BookingRequest:
    """In the next weeks, for which there are far more requests than GPUs."""
    start = None if dice.below(3) == 0 and scenario.begins_today else day(1 + dice.below(days))
    return BookingRequest(
        model=A100,
        start=start,
        end=start + timedelta(days=1 + dice.below(LONGEST)) if start else day(1),
        count=1 + dice.below(scenario.most),
        topology=scenario.topology,
    )


def a_change(dice: Dice, scenario: Scenario, record: Record) -> BookingChange:
    """Longer or shorter, more or fewer GPUs, or at another time, where it has not begun."""
    days = timedelta(days=1 + dice.below(LONGEST))
    if dice.below(3) == 0:
        return BookingChange(count=1 + dice.below(scenario.most))
    if dice.below(2) and record.start >= day(1):
        start = day(1 + dice.below(DAYS))
        return BookingChange(start=start, end=start + days)
    return BookingChange(end=max(record.start, day(0)) + days)


class Crowd:
    """Writers at one service, and their answers."""

    def __init__(self, store: Store, scenario: Scenario, seed: int) -> None:
        self.answers = Answers()
        self._store = store
        self._scenario = scenario
        self._seed = seed
        self._clock = FakeClock()
        self._service = a_service(store, scenario, self._clock)
        self._together = threading.Barrier(WRITERS)
        self._lock = threading.Lock()

    def write(self, number: int, each: int) -> None:
        """The work of one writer."""
        dice = Dice(self._seed, number)
        self._together.wait()
        for attempt in range(each):
            if dice.below(2) == 0:
                self._clock.advance(2)
            common = dice.below(5) == 0
            record = self._create(dice, f"crowd-{dice.below(CROWD)}" if common else f"u{number}-{attempt}")
            if record and dice.below(2):
                record = self._change(dice, record)
            if record and (record.start < day(1) or dice.below(12) >= self._scenario.kept):
                self._end(record)

    def observe(self, over: threading.Event) -> None:
        """Read the store repeatedly, and once more at the end."""
        while True:
            is_last = over.wait(EVERY)
            stored = self._store.records_ending_after(day(-1))
            self.answers.seen.append((self._clock.now(), stored))
            if is_last:
                return

    def _create(self, dice: Dice, user: str) -> Record | None:
        request, now = request_for(dice, self._scenario), self._clock.now()
        wanted = Wanted(user, request.start or now, request.end, request.count)
        return self._submit(wanted, lambda: self._service.create(somebody(user), request))

    def _change(self, dice: Dice, record: Record) -> Record:
        wanted_change = msgspec.structs.asdict(a_change(dice, self._scenario, record))
        changes = {name: value for name, value in wanted_change.items() if value is not UNSET}
        becomes = msgspec.structs.replace(record, **changes)
        start = max(becomes.start, self._clock.now())
        wanted = Wanted(record.user, start, becomes.end, becomes.count, changing=record.id)
        change = partial(self._service.change, somebody(record.user), record.id, BookingChange(**changes))
        return self._submit(wanted, change) or record

    def _end(self, record: Record) -> None:
        has_begun = record.state(self._clock.now()) == "active"
        end = self._service.release if has_begun else self._service.cancel
        self._keep(end(somebody(record.user), record.id))

    def _submit(self, wanted: Wanted, ask: Callable[[], Record]) -> Record | None:
        before = self._store.change()
        try:
            return self._keep(ask())
        except RefusedError:
            refusal = Refusal(wanted, before, self._store.change())
            with self._lock:
                self.answers.refused.append(refusal)
            return None

    def _keep(self, record: Record) -> Record:
        with self._lock:
            self.answers.kept[record.change] = record
            self.answers.answered.setdefault(record.change, self._clock.now())
        return record


def crowd(store: Store, scenario: Scenario, seed: int, *, each: int) -> Answers:
    """Let all writers send so many requests; their answers."""
    made = Crowd(store, scenario, seed)
    over = threading.Event()
    with ThreadPoolExecutor(WRITERS + 1) as pool:
        observer = pool.submit(made.observe, over)
        list(pool.map(lambda number: made.write(number, each), range(WRITERS)))
        over.set()
        observer.result()
    return made.answers


def wrong(store: Store, scenario: Scenario, answers: Answers) -> Iterator[str]:
    """Everything that is wrong with the answers and with the store."""
    states = answers.states()
    stored = store.read(lambda reading: {each.id: each for each in reading.ending_after(day(-1))})
    for at, seen in answers.seen:
        if problem := spoilt(seen, scenario, at):
            yield problem
    if {key: _fixed(each) for key, each in stored.items()} != {each.id: _fixed(each) for each in states[-1]}:
        yield "what is stored is not what was answered"
    for change, record in answers.kept.items():
        if record.cancelled or record.released:
            continue
        start = max(record.start, answers.answered[change])
        wanted = Wanted(record.user, start, record.end, record.count, changing=record.id)
        if is_hindered(states[change - 1], wanted, scenario):
            yield f"granted against the rules: {record}"
        if _most(states[change], start, record.end) > scenario.gpus:
            yield f"overbooked by change {change}: {record}"
    if scenario.topology != "single-node":
        yield from (f"refused without a reason: {refusal}" for refusal in unfounded(scenario, answers))


def unfounded(scenario: Scenario, answers: Answers) -> list[Refusal]:
    """The refusals of requests that could have been granted.

    On one node the search for places has a limit, and misses some that are found by trying everything.
    """
    states = answers.states()
    return [
        refusal
        for refusal in answers.refused
        if not any(
            is_hindered(state, refusal.wanted, scenario)
            for state in states[refusal.before : refusal.after + 1]
        )
    ]


def overbooked(records: Iterable[Record], scenario: Scenario, since: datetime) -> list[Record]:
    """Bookings during which, from an instant on, more devices are booked than exist.

    Earlier load does not count: a booking that gets another GPU while it runs has the new count in its
    record, for its whole span.
    """
    kept = [record for record in records if record.end > since]
    return [record for record in kept if peak(kept, max(record.start, since), record.end) > scenario.gpus]


def spoilt(records: Iterable[Record], scenario: Scenario, now: datetime) -> str | None:
    """The fault in the places of bookings from now on; None when they are valid, or the sum decides."""
    live = {record.id: record for record in records if record.cancelled is None and record.end > now}
    if not any(record.topology == "single-node" and record.count > 1 for record in live.values()):
        return None
    return World(dict(scenario.devices), records=live, now=now).spoilt()


def _fixed(record: Record) -> Record:
    """The booking without what other bookings may change: its place in the plan and its change number."""
    return msgspec.structs.replace(record, plan=(), change=0)


def is_hindered(state: list[Record], wanted: Wanted, scenario: Scenario) -> bool:
    """Whether there is a reason to refuse a request: by the sum, or by trying everything."""
    others = [each for each in state if each.id != wanted.changing]
    if any(each.user == wanted.user and each.released is None for each in others):
        return True
    if _most(others, wanted.start, wanted.end) + wanted.count > scenario.gpus:
        return True
    if scenario.topology != "single-node":
        return False
    record = a_record(
        wanted.start, wanted.end, id="wanted", user=wanted.user, count=wanted.count, topology="single-node"
    )
    return not has_a_placement([*others, record], scenario.devices)


def _most(state: list[Record], start: datetime, end: datetime) -> int:
    """The most devices booked at any instant of a span, which is one where a booking begins."""
    there = [each for each in state if each.start < end and each.end > start]
    instants = {start, *(each.start for each in there if each.start > start)}
    return max(sum(each.count for each in there if each.start <= at < each.end) for at in instants)


def lost(answers: Iterable[Record], stored: Mapping[str, Record]) -> Iterator[str]:
    """Answers that are not stored; a booking that has changed since has a later change."""
    for answer in answers:
        found = stored.get(answer.id)
        if found is None:
            yield f"answered, and not stored: {answer}"
        elif found.change < answer.change:
            yield f"answered, and stored as it was before: {answer}, {found}"
        elif found.change == answer.change and _fixed(found) != _fixed(answer):
            yield f"answered in another way than it is stored: {answer}, {found}"


def main(url: str, seed: int, scenario: Scenario) -> None:
    """Book, change and give back, and print each answer, until this process is killed."""
    days = LONG if scenario is ANYWHERE else DAYS
    with closing(open_store(url)) as store:
        clock = FakeClock()
        service, lock = a_service(store, scenario, clock), threading.Lock()

        def report(record: Record) -> None:
            with lock:
                sys.stdout.write(f"{msgspec.json.encode(record).decode()}\n")
                sys.stdout.flush()

        def writer(number: int) -> None:
            dice = Dice(seed, number)
            attempt = 0
            while True:
                attempt += 1
                who = somebody(f"u{seed}-{number}-{attempt}")
                try:
                    record = service.create(who, request_for(dice, scenario, days))
                except RefusedError:
                    continue
                report(record)
                if dice.below(2):
                    with suppress(RefusedError):
                        record = service.change(who, record.id, a_change(dice, scenario, record))
                        report(record)
                if dice.below(10) < 7:
                    clock.advance(1)
                    has_begun = record.state(clock.now()) == "active"
                    report((service.release if has_begun else service.cancel)(who, record.id))

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(writer, range(WRITERS)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), SCENARIOS[sys.argv[3]])
