"""A calendar follows the database, and does not keep past bookings indefinitely."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from booking.server.availability.calendars import (
    FEW,
    Calendar,
    Calendars,
    calendar_of,
    seconds,
)
from booking.server.records import Place, Record
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


def test_past_bookings_are_forgotten_before_there_are_many() -> None:
    ledger, calendars, now = Ledger(), Calendars(), day(0)
    for _ in range(10 * FEW):
        ledger.add(now, now + HOUR)
        found = calendars.of(A100, ledger, now)
        assert len(found.records) <= FEW + 2
        now += HOUR


def test_a_large_calendar_is_rarely_read() -> None:
    ledger, calendars = Ledger(), Calendars()
    for _ in range(8 * FEW):
        ledger.add(day(0), day(2))
    for _ in range(4 * FEW):
        ledger.add(day(1), day(3))
        found = calendars.of(A100, ledger, day(0))
    assert ledger.read == 1
    assert found.load.spans() == calendar_of(ledger.records.values()).load.spans()


# --- one calendar ---------------------------------------------------------------------------------------
def single(name: str, start: int = 1, end: int = 3, **more: object) -> Record:
    return a_record(day(start), day(end), **{"id": name, "plan": (Place("n0", 1),), **more})


def pair(name: str, start: int = 1, end: int = 3) -> Record:
    return single(name, start, end, count=2, topology="single-node", plan=(Place("n0", 2),))


def loads(calendar: Calendar) -> list[tuple[int, int, int]]:
    return [
        ((begin - seconds(day(0))) // 86_400, (until - seconds(day(0))) // 86_400, count)
        for begin, until, count in calendar.load.spans()
    ]


def test_a_calendar_knows_whether_bookings_of_one_node_remain() -> None:
    made = calendar_of([pair("a", 1, 3), pair("b", 1, 5), single("c", 1, 9)])
    second = timedelta(seconds=1)
    assert made.has_wholes(day(5) - second)
    assert not made.has_wholes(day(5))
    assert made.has_wholes(day(3) - second, without="b")
    assert not made.has_wholes(day(3), without="b")


def test_bookings_of_one_node_are_followed_through_changes() -> None:
    made = calendar_of([pair("a", 1, 3), pair("b", 1, 3)])
    longer = made.after([pair("a", 1, 6), pair("c", 2, 4)], 2)
    assert longer.wholes == {"a": day(6), "b": day(3), "c": day(4)}
    fewer = longer.after([single("a", 1, 6), single("c", cancelled=day(0))], 3)
    assert fewer.wholes == {"b": day(3)}
    assert fewer.after([single("d")], 4).wholes == {"b": day(3)}


def test_a_plan_is_made_once_for_the_same_devices_and_blocks_and_again_for_others() -> None:
    made, block = calendar_of([single("a")]), ("n0", seconds(day(0)), seconds(day(9)), 1)
    first = made.plan({"n0": 2}, ())
    assert made.plan({"n0": 2}, ()) is first
    blocked = made.plan({"n0": 2}, (block,))
    assert blocked.node_plans["n0"].room(seconds(day(1)), seconds(day(2))) == 0
    assert made.plan({"n0": 3}, ()).node_plans["n0"].devices == 3
    assert made.plan({"n0": 2}, ()) is not first


# --- what transactions see ------------------------------------------------------------------------------
class Writing(Ledger):
    """A transaction that has written."""

    has_written = True


def test_only_the_transaction_itself_sees_what_it_has_written() -> None:
    ledger, calendars = Ledger(), Calendars()
    ledger.add(day(1), day(3))
    stored = calendars.of(A100, ledger, day(0))
    writing = Writing()
    writing.records = dict(ledger.records)
    writing.add(day(1), day(3))
    assert len(calendars.of(A100, writing, day(0)).records) == 2
    assert writing.read == 0
    assert calendars.of(A100, ledger, day(0)) is stored
    ledger.add(day(4), day(6))
    assert set(loads(calendars.of(A100, ledger, day(0)))) == {(1, 3, 1), (4, 6, 1)}


def test_a_transaction_with_an_older_state_reads_its_own_and_the_newest_calendar_is_kept() -> None:
    ledger, older, calendars = Ledger(), Ledger(), Calendars()
    ledger.add(day(1), day(3))
    older.records = dict(ledger.records)
    ledger.add(day(1), day(3))
    newest = calendars.of(A100, ledger, day(0))
    assert loads(calendars.of(A100, older, day(0))) == [(1, 3, 1)]
    assert older.read == 1
    assert calendars.of(A100, ledger, day(0)) is newest


def test_lanes_after_changes_are_those_of_a_rebuilt_calendar() -> None:
    def share(key: str, start: int, end: int, *lanes: int, node: str = "n0", **more: Any) -> Record:
        plan = (Place(node, len(lanes), lanes),)
        return a_record(day(start), day(end), id=key, count=len(lanes), memory=1, plan=plan, **more)

    made = calendar_of([share("a", 1, 4, 1), share("b", 3, 6, 1), single("c", 1, 9)])
    made.plan({"n0": 3, "n1": 3}, ())
    assert loads(made) == [(1, 6, 2), (6, 9, 1)]
    steps = (
        [share("d", 5, 8, 1, 2, topology="single-node")],
        [share("b", 3, 6, 1, cancelled=day(0))],
        [share("a", 1, 6, 1), share("d", 5, 8, 1, 2, node="n1", topology="single-node")],
        [share("e", 2, 3, 7)],
    )
    for change, step in enumerate(steps, start=2):
        made = made.after(step, change)
        fresh = calendar_of(made.records.values(), change)
        assert (loads(made), made.lanes, made.shares) == (loads(fresh), fresh.lanes, fresh.shares)
        (plan,), again = made.model_plans.values(), fresh.plan({"n0": 3, "n1": 3}, ())
        for name, node_plan in again.node_plans.items():
            assert sorted(plan.node_plans[name].items) == sorted(node_plan.items)
        assert plan.unplaced == again.unplaced
