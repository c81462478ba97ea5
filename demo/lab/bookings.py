"""A month of bookings: what is over, what runs, what is planned, a maintenance, and a booking at risk.

The random numbers have a fixed seed, so that the lab is the same at every start, around another day.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec

from booking.server.records import Place, Record
from booking.server.store import Writing
from booking.server.store_records import Block
from cluster.objects.inventory import Device
from demo.lab.nodes import A100, H100, H200, by_claims
from demo.lab.people import ALICE, BOB, CAROL, EVERYBODY

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
SEED: Final = 7
BEFORE: Final = 15
AHEAD: Final = 30
"""Days around today that have bookings."""
NODES_OF_A_PERSON: Final = 2
"""One more planned booking for each so many nodes of a large site, for each person."""
BOOKABLE: Final = 0.6
"""At most this part of a node is booked by chance: the rest is free, as people want to see."""
BOOKED_SHARE: Final = 20 * 1024
"""MiB of each booked share."""
HOURS: Final = (8, 9, 10, 13, 14, 17)
LENGTHS: Final = (1, 2, 3, 4, 5, 7)


@dataclass
class Diary:
    """What is booked on each node, so that no GPU is promised twice."""

    nodes: Mapping[str, tuple[Device, ...]]
    spans: dict[str, list[tuple[datetime, datetime, int]]] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def fits(self, node: str, start: datetime, end: datetime, count: int) -> bool:
        """Whether so many GPUs are free there all the time, and something stays free as well."""
        most = max(1, int(len(self.nodes[node]) * BOOKABLE))
        taken = sum(c for s, e, c in self.spans.get(node, ()) if s < end and start < e)
        return taken + count <= most

    def share(self, node: str, *spans: tuple[str, datetime, datetime]) -> None:
        """Book one GPU in shares: the same part of it for each of these people and spans."""
        self.spans.setdefault(node, []).append((min(s for _, s, _ in spans), max(e for _, _, e in spans), 1))
        for user, start, end in spans:
            record = self._record(user, node, start=start, end=end, count=1)
            shared = msgspec.structs.replace(record, memory=BOOKED_SHARE, plan=(Place(node, 1, (1,)),))
            self.records.append(shared)

    def add(self, user: str, node: str, *, start: datetime, end: datetime, count: int) -> None:
        """Book whole GPUs."""
        self.spans.setdefault(node, []).append((start, end, count))
        self.records.append(self._record(user, node, start=start, end=end, count=count))

    def _record(self, user: str, node: str, *, start: datetime, end: datetime, count: int) -> Record:
        return Record(
            id=f"b-{next(self.numbers):06}",
            user=user,
            model=self.nodes[node][0].model,
            count=count,
            topology="single-node" if count > 1 else "any",
            namespace=None,
            start=start,
            end=end,
            created=start - 3 * DAY,
        )


def add_bookings(writing: Writing, nodes: Mapping[str, tuple[Device, ...]], now: datetime) -> list[Record]:
    """Store a month of bookings and the maintenance; returns those that run or are planned."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    diary = Diary(nodes)
    _of_the_story(diary, today, now)
    _by_chance(diary, today, now)
    for record in diary.records:
        writing.add(record)
    (h200,) = (name for name, devices in itertools.islice(nodes.items(), 1) if devices[0].model == H200.label)
    writing.block_add(
        Block(
            id="k-driver",
            node=h200,
            start=today + 10 * DAY + 8 * HOUR,
            end=today + 11 * DAY + 18 * HOUR,
            reason="driver update",
            created_by=CAROL,
            created=now.replace(microsecond=0),
        )
    )
    return [record for record in diary.records if record.end > now]


def _of_the_story(diary: Diary, today: datetime, now: datetime) -> None:
    """Alice has a GPU now, and eight at a time that the maintenance has made uncertain; bob one by claim."""
    first = {devices[0].model: name for name, devices in reversed(list(diary.nodes.items()))}
    hour = now.replace(minute=0, second=0, microsecond=0)
    for user, model, start, end, count in (
        (ALICE, H100, hour - 20 * HOUR, hour + 4 * DAY, 1),
        (ALICE, H200, today + 9 * DAY + 9 * HOUR, today + 13 * DAY + 17 * HOUR, 8),
        (BOB, H100, today + 6 * DAY + 9 * HOUR, today + 9 * DAY + 17 * HOUR, 2),
        (CAROL, A100, hour - 2 * DAY, hour + 2 * DAY + 6 * HOUR, 2),
    ):
        if model.label in first:  # a site of a few nodes does not have every model
            diary.add(user, first[model.label], start=start, end=end, count=count)
    for node in [name for name, devices in diary.nodes.items() if by_claims(devices)][:1]:
        diary.add(BOB, node, start=hour - 3 * HOUR, end=hour + 3 * DAY, count=1)
    if A100.label in first:
        one, other = [person for person in EVERYBODY if person not in (ALICE, BOB, CAROL)][:2]
        begun = today + 2 * DAY + 9 * HOUR
        diary.share(first[A100.label], (one, begun, begun + 5 * DAY), (other, begun + DAY, begun + 4 * DAY))


def _by_chance(diary: Diary, today: datetime, now: datetime) -> None:
    chance = Random(SEED)  # noqa: S311 - the lab is to be the same each time
    others = [person for person in EVERYBODY if person not in (ALICE, BOB, CAROL)]
    for person in EVERYBODY:
        _book(diary, chance, person, (-BEFORE, -6), today=today, before=now)
    for person in others[:6]:
        _book(diary, chance, person, (-2, 0), today=today, over=now)
    for _ in range(max(1, len(diary.nodes) // 6)):
        for person in others:
            _book(diary, chance, person, (2, 11), today=today)
            _book(diary, chance, person, (12, AHEAD - 7), today=today)


def _book(
    diary: Diary,
    chance: Random,
    person: str,
    days: tuple[int, int],
    *,
    today: datetime,
    before: datetime | None = None,
    over: datetime | None = None,
) -> None:
    """A booking that begins on one of these days, where there is room; before an instant, or over it.

    One that runs now is not of the model that is kept free for visitors.
    """
    for _ in range(8):
        node = chance.choice([name for name, devices in diary.nodes.items() if not by_claims(devices)])
        start = today + chance.randint(*days) * DAY + chance.choice(HOURS) * HOUR
        end = start + chance.choice(LENGTHS) * DAY
        count = chance.choice((1, 1, 2, 2, 4))
        if before and end >= before:
            continue
        if over and (not start < over < end - 2 * HOUR or diary.nodes[node][0].model == H200.label):
            continue
        if diary.fits(node, start, end, count):
            diary.add(person, node, start=start, end=end, count=count)
            return
