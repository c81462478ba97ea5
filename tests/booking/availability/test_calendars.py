"""A calendar follows the database, and does not keep what is over indefinitely."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from booking.availability.calendars import FEW, Calendars, calendar_of
from booking.records import Record
from tests.fakes.objects import A100
from tests.fakes.records import a_record, day

HOUR = timedelta(hours=1)


class Ledger:
    """A database of one model; how often all of it was read."""

    has_written = False

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.read = 0

    def add(self, start: datetime, end: datetime) -> None:
        change = self.change() + 1
        record = a_record(start, end, id=f"b-{change}")
        self.records[record.id] = msgspec.structs.replace(record, change=change)

    def change(self) -> int:
        return len(self.records)

    def ending_after(self, instant: datetime, *, model: str | None = None) -> Sequence[Record]:
        assert model == A100
        self.read += 1
        return [record for record in self.records.values() if record.end > instant]

    def changed_after(self, change: int, *, model: str | None = None) -> Sequence[Record]:
        assert model == A100
        return [record for record in self.records.values() if record.change > change]


def test_what_is_over_is_forgotten_before_there_is_much_of_it() -> None:
    ledger, calendars, now = Ledger(), Calendars(), day(0)
    for _ in range(10 * FEW):
        ledger.add(now, now + HOUR)
        found = calendars.of(A100, ledger, now)
        assert len(found.records) <= FEW + 2
        now += HOUR


def test_a_large_calendar_is_read_seldom() -> None:
    ledger, calendars = Ledger(), Calendars()
    for _ in range(8 * FEW):
        ledger.add(day(0), day(2))
    for _ in range(4 * FEW):
        ledger.add(day(1), day(3))
        found = calendars.of(A100, ledger, day(0))
    assert ledger.read == 1
    assert found.load.spans() == calendar_of(ledger.records.values()).load.spans()
