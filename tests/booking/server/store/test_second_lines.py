"""What the schema prevents even if the decision before it is wrong, and that it allows what is right."""

from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from booking.server.calendar import peak
from booking.server.records import Record
from booking.server.store import Store, StoreError, open_store
from booking.server.store_records import AuditEntry, Guard
from tests.databases import KINDS, NEEDS_A_SERVER, a_database
from tests.fakes.dice import Dice
from tests.fakes.objects import A6000
from tests.fakes.records import a_record, day


def guard(devices: int | None = 2, live: int | None = None, since: datetime | None = None) -> Guard:
    return Guard(since=since or day(0), devices=devices, live=live)


def add(store: Store, name: str, *span: float, by: Guard | None = None, **more: Any) -> Record:
    start, end = span or (0, 2)
    record = a_record(day(start), day(end), **{"id": f"b-{name}", "user": name, **more})
    return store.write(lambda writing: writing.add(record, guard=by or guard()))


def replace(store: Store, record: Record, by: Guard | None = None, **changes: Any) -> Record:
    changed = msgspec.structs.replace(record, **changes)
    return store.write(lambda writing: writing.replace(changed, guard=by or guard()))


def test_l5_more_devices_than_exist_cannot_be_stored(store: Store) -> None:
    add(store, "a")
    add(store, "b")
    with pytest.raises(StoreError, match="more devices of the model would be booked than there are"):
        add(store, "c")
    assert store.change() == 2


def test_l5_the_peak_counts_and_not_the_sum(store: Store) -> None:
    add(store, "a", 0, 2)
    add(store, "b", 2, 4)
    add(store, "c", 0, 4)
    with pytest.raises(StoreError, match="more devices"):
        add(store, "d", 1, 3)
    add(store, "e", 4, 6, count=2)
    add(store, "f", 0, 2, model=A6000)


def test_cancelled_bookings_take_no_device(store: Store) -> None:
    first = add(store, "a", count=2)
    replace(store, first, cancelled=day(0))
    add(store, "b", count=2)


def test_l5_a_booking_cannot_grow_into_the_devices_of_another(store: Store) -> None:
    one = add(store, "a", 0, 2, count=2)
    add(store, "b", 3, 4)
    for wrong in ({"end": day(4)}, {"start": day(3), "end": day(5)}, {"count": 3}):
        with pytest.raises(StoreError, match="more devices"):
            replace(store, one, **wrong)
    assert replace(store, one, end=day(3)).change == 3


def test_a_booking_that_had_room_may_stay_and_grow_where_there_is_room(store: Store) -> None:
    one = add(store, "a", 0, 4)
    add(store, "b", 0, 2)
    few = guard(devices=1)  # a device has gone
    assert replace(store, one, by=few, end=day(6))
    assert replace(store, one, by=few, end=day(3))
    with pytest.raises(StoreError, match="more devices"):
        add(store, "c", 1, 3, by=few)


def test_past_load_is_not_judged(store: Store) -> None:
    one = add(store, "a", -4, 4, by=guard(since=day(-4)))
    other = add(store, "b", -4, 4, by=guard(since=day(-4)))
    replace(store, other, end=day(-1), released=day(-1))
    assert replace(store, one, count=2)


def test_a_user_has_at_most_the_allowed_number_of_planned_and_active_bookings(store: Store) -> None:
    add(store, "a", 0, 2, user="alice", by=guard(live=2))
    add(store, "b", 5, 6, user="alice", by=guard(live=2))
    with pytest.raises(StoreError, match="'alice' would have more than 2"):
        add(store, "c", 8, 9, user="alice", by=guard(live=2))
    add(store, "d", 8, 9, user="alice", by=guard(live=3))
    add(store, "e", 8, 9, user="bob", by=guard(live=1))


@pytest.mark.parametrize("over", [{"cancelled": day(0)}, {"released": day(1), "end": day(1)}])
def test_a_place_is_free_again_when_its_booking_is_cancelled_or_released(
    store: Store, over: dict[str, Any]
) -> None:
    one = add(store, "a", by=guard(live=1))
    replace(store, one, **over)
    add(store, "b", 8, 9, user="a", by=guard(live=1))


def test_a_place_is_free_again_when_its_booking_is_over_without_any_write(store: Store) -> None:
    add(store, "a", 0, 2, by=guard(live=1))
    with pytest.raises(StoreError, match="more than 1"):
        add(store, "b", 8, 9, user="a", by=guard(live=1, since=day(1.99)))
    add(store, "b", 8, 9, user="a", by=guard(live=1, since=day(2)))


def test_two_bookings_of_a_user_never_have_the_same_place(store: Store) -> None:
    add(store, "a", by=guard(live=1))
    stealing = 'UPDATE bookings SET live_slot = 0 WHERE "user" = ?'
    store.write(lambda writing: writing.add(a_record(id="b-two", user="a")))
    with pytest.raises(StoreError, match=r"(?i)unique"):
        store.write(lambda writing: writing._run(stealing, "a"))


FORGED = "INTO audit (number, at, actor, action, subject) VALUES (1, 0, 'nobody', 'x.y', 'b-one')"
ALTERING = (
    *((kind, "DELETE FROM audit") for kind in KINDS),
    *((kind, "UPDATE audit SET actor = 'nobody'") for kind in KINDS),
    *((kind, f"INSERT {FORGED} ON CONFLICT (number) DO UPDATE SET actor = 'nobody'") for kind in KINDS),
    ("sqlite", f"REPLACE {FORGED}"),
    ("postgresql", "TRUNCATE audit"),
)


@pytest.mark.parametrize(
    ("kind", "statement"),
    [pytest.param(*each, marks=[NEEDS_A_SERVER] if each[0] == "postgresql" else []) for each in ALTERING],
)
def test_the_audit_cannot_be_changed(kind: str, statement: str, tmp_path: Path) -> None:
    with closing(open_store(a_database(kind, tmp_path))) as store:
        refuses_to_alter(store, statement)


def refuses_to_alter(store: Store, statement: str) -> None:
    entry = AuditEntry(at=day(0), actor="alice", action="booking.create", subject="b-one")
    store.write(lambda writing: writing.audit(entry))
    with pytest.raises(StoreError, match="the audit is never changed"):
        store.write(lambda writing: writing._run(statement))
    with store.reading() as reading:
        assert [each.actor for each in reading.audit_page(after=None, limit=9)] == ["alice"]


@pytest.mark.parametrize("seed", range(4))
def test_l5_the_schema_allows_exactly_what_a_naive_count_allows(store: Store, seed: int) -> None:
    dice, kept = Dice(seed), dict[str, Record]()
    for number in range(120):
        start = dice.below(12)
        wanted = a_record(
            day(start),
            day(start + 1 + dice.below(5)),
            id=f"b-{number}",
            user=f"u{number}",
            count=1 + dice.below(3),
        )
        changed = list(kept.values())[dice.below(len(kept))] if kept and dice.below(5) < 2 else None
        if changed:
            wanted = msgspec.structs.replace(wanted, id=changed.id, user=changed.user)
        others = [record for record in kept.values() if record.id != wanted.id]
        fits = all(
            peak(others, day(each), day(each + 1)) + wanted.count <= 4
            for each in range(18)
            if wanted.start <= day(each) < wanted.end
        )
        try:
            if changed:
                kept[wanted.id] = replace(store, wanted, by=guard(4))
            else:
                kept[wanted.id] = store.write(
                    lambda writing, wanted=wanted: writing.add(wanted, guard=guard(4))
                )
        except StoreError:
            assert not fits
        else:
            assert fits
    assert len(kept) > 5
