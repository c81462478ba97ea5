"""Each query of bookings, compared with a search through all; and the effect of a guard on a write."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.records import Place, Record, State
from booking.server.store import Reading, Store, StoreError, open_store
from booking.server.store_records import Filters, Guard
from tests.fakes.dice import Dice
from tests.fakes.objects import A100, A6000
from tests.fakes.records import a_record, day

USERS = ("alice", "bob", "carol")
MODELS = (A100, A6000)


def drawn(dice: Dice, number: int) -> Record:
    """A booking within ten days, on whole hours; some are cancelled, some released before the queries."""
    fate = dice.below(6)
    start = day(dice.below(240) / 24 - (16 if fate == 1 else 0))
    end = start + timedelta(hours=1 + dice.below(72))
    return a_record(
        start,
        end,
        id=f"b-{number:03}",
        user=USERS[dice.below(3)],
        model=MODELS[dice.below(2)],
        cancelled=start - timedelta(hours=1) if fate == 0 else None,
        released=end - timedelta(minutes=30) if fate == 1 else None,
    )


class Everything:
    """A store of many bookings, and they themselves, by start and id; no failure prints them all."""

    def __init__(self, store: Store, records: list[Record]) -> None:
        self.store = store
        self.records = sorted(records, key=lambda each: (each.start, each.id))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'bookings.db'}"
    dice = Dice(7)
    with closing(open_store(url)) as store:
        wanted = [drawn(dice, number) for number in range(120)]
        stored = store.write(lambda writing: [writing.add(record) for record in wanted])
        yield Everything(store, stored)


INSTANTS = st.one_of(
    st.integers(-24, 24 * 14).map(lambda hour: day(hour / 24)),
    st.integers(-48, 48 * 14).map(lambda half: day(half / 48) + timedelta(microseconds=500_000)),
)
"""On the hours at which bookings begin and end, and just beside them."""


@given(st.sampled_from(MODELS), INSTANTS, INSTANTS)
def test_bookings_of_a_span_are_those_that_overlap_it(
    everything: Everything, model: str, one: datetime, other: datetime
) -> None:
    store, records = everything.store, everything.records
    start, end = min(one, other), max(one, other) + timedelta(microseconds=1)
    found = store.read(lambda reading: reading.overlapping(model, start, end))
    assert found == [
        each
        for each in records
        if each.cancelled is None and each.model == model and each.start < end and start < each.end
    ]


@given(INSTANTS, st.sampled_from((None, *MODELS)))
def test_bookings_ending_after_an_instant_are_all_that_are_not_over_by_then(
    everything: Everything, instant: datetime, model: str | None
) -> None:
    store, records = everything.store, everything.records
    after = [each for each in records if each.cancelled is None and each.end > instant]
    with store.reading() as reading:
        assert reading.ending_after(instant, model=model) == [
            each for each in after if model in {None, each.model}
        ]
        assert reading.models_ending_after(instant) == sorted({each.model for each in after})


@given(st.integers(0, 125), st.sampled_from((None, *MODELS)))
def test_bookings_changed_after_a_change_are_those_with_a_later_number(
    everything: Everything, change: int, model: str | None
) -> None:
    store, records = everything.store, everything.records
    found = store.read(lambda reading: reading.changed_after(change, model=model))
    assert found == [each for each in records if each.change > change and model in {None, each.model}]


@pytest.mark.parametrize("user", [*USERS, "nobody"])
def test_a_history_has_all_bookings_of_its_user_and_none_of_others(everything: Everything, user: str) -> None:
    store, records = everything.store, everything.records
    found = store.read(lambda reading: reading.history(user))
    assert found == [each for each in records if each.user == user]


FILTERS = st.builds(
    Filters,
    user=st.sampled_from((None, "alice", "bob", "nobody")),
    model=st.sampled_from((None, *MODELS)),
    state=st.sampled_from((None, "planned", "active", "ended", "cancelled")),
    start=st.none() | INSTANTS,
    end=st.none() | INSTANTS,
    past=st.booleans(),
)


def chosen(record: Record, filters: Filters, now: datetime) -> bool:
    """Whether a booking is one that ``Filters`` describe."""
    state: State = record.state(now)
    return (
        filters.user in {None, record.user}
        and filters.model in {None, record.model}
        and (filters.start is None or record.end > filters.start)
        and (filters.end is None or record.start < filters.end)
        and (state == filters.state if filters.state else filters.past or state in {"planned", "active"})
    )


def read(reading: Reading, filters: Filters, now: datetime, limit: int) -> list[Record]:
    """All pages; each but the last has the requested length."""
    found: list[Record] = []
    page, after = reading.page(filters, now=now, after=None, limit=limit)
    found += page
    while after is not None:
        assert len(page) == limit
        assert len({each.id for each in found}) == len(found), "a page repeats an entry of another"
        page, after = reading.page(filters, now=now, after=after, limit=limit)
        found += page
    return found


@given(FILTERS, INSTANTS, st.integers(1, 130))
def test_the_pages_of_a_list_have_each_matching_booking_once_and_sorted(
    everything: Everything, filters: Filters, now: datetime, limit: int
) -> None:
    store, records = everything.store, everything.records
    found = store.read(lambda reading: read(reading, filters, now, limit))
    assert found == [each for each in records if chosen(each, filters, now)]


BESIDE = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (day(1) - BESIDE, "planned"),
        (day(1), "active"),
        (day(2) - BESIDE, "active"),
        (day(2), "ended"),
        (day(2) + BESIDE, "ended"),
    ],
    ids=["just before it", "with its start", "just before its end", "with its end", "just after it"],
)
def test_a_booking_is_listed_in_the_right_state_at_its_start_and_end(
    store: Store, now: datetime, state: State
) -> None:
    store.write(lambda writing: writing.add(a_record(day(1), day(2))))
    found = {
        name: bool(store.read(lambda reading, by=by: reading.page(by, now=now, after=None, limit=1))[0])
        for name, by in {
            "planned": Filters(state="planned"),
            "active": Filters(state="active"),
            "ended": Filters(state="ended"),
            "cancelled": Filters(state="cancelled"),
            "not past": Filters(past=False),
        }.items()
    }
    assert [name for name, is_found in found.items() if is_found] == (
        ["ended"] if state == "ended" else [state, "not past"]
    )


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0.0, 0.0, False),
        (0.5, 0.0, False),
        (0.0, 0.5, True),
        (0.0, 1.0, True),
        (0.0, 1.5, True),
    ],
)
def test_a_list_up_to_the_middle_of_a_second_includes_bookings_that_begin_with_it(
    store: Store, start: float, end: float, *, found: bool
) -> None:
    store.write(lambda writing: writing.add(a_record(day(4))))
    span = Filters(
        start=day(4) + timedelta(seconds=start) if start else None, end=day(4) + timedelta(seconds=end)
    )
    page, _ = store.read(lambda reading: reading.page(span, now=day(0), after=None, limit=9))
    assert bool(page) == found


def test_a_list_continues_after_its_last_booking_was_moved_away(store: Store) -> None:
    one, two, three = (a_record(day(number), id=f"b-{number}") for number in (1, 2, 3))
    store.write(lambda writing: [writing.add(each) for each in (one, two, three)])
    _, after = store.read(lambda reading: reading.page(Filters(), now=day(0), after=None, limit=2))
    store.write(lambda writing: writing.replace(msgspec.structs.replace(two, start=day(0), end=day(1))))
    page, following = store.read(lambda reading: reading.page(Filters(), now=day(0), after=after, limit=2))
    assert ([each.id for each in page], following) == (["b-3"], None)


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1000, 1001])
def test_any_number_of_ids_can_be_queried_at_once(store: Store, count: int) -> None:
    numbers = (0, 499, 500, 999, 1000)
    stored = [
        a_record(day(-9 * (number % 2)), id=f"b-{number}", cancelled=day(0) if number == 500 else None)
        for number in numbers
    ]
    store.write(lambda writing: [writing.add(each) for each in stored])
    known = store.known(f"b-{number}" for number in range(count))
    assert known == {f"b-{number}" for number in numbers if number < count}


# --- writes ------------------------------------------------------------------------------------------


def places(store: Store) -> dict[str, int | None]:
    """Booking -> the place of its user that it has."""
    with store.reading() as reading:
        rows = reading._line.rows("SELECT id, live_slot FROM bookings")
        return {str(row[0]): row[1] for row in rows}


GUARD = Guard(since=day(0), live=3)


def add(store: Store, name: str, start: float, by: Guard | None = GUARD) -> Record:
    return store.write(lambda writing: writing.add(a_record(day(start), id=name), guard=by))


def test_a_booking_takes_the_first_free_place_of_its_user(store: Store) -> None:
    _, two, _ = (add(store, f"b-{number}", number * 3) for number in range(3))
    assert places(store) == {"b-0": 0, "b-1": 1, "b-2": 2}
    store.write(lambda writing: writing.replace(msgspec.structs.replace(two, cancelled=day(0))))
    assert places(store) == {"b-0": 0, "b-1": None, "b-2": 2}
    add(store, "b-3", 20)
    assert places(store) == {"b-0": 0, "b-1": None, "b-2": 2, "b-3": 1}


def test_a_past_booking_gives_its_place_back_when_its_user_books_again(store: Store) -> None:
    add(store, "b-0", 0)
    add(store, "b-1", 5)
    assert places(store) == {"b-0": 0, "b-1": 1}
    add(store, "b-2", 9, Guard(since=day(2), live=2))
    assert places(store) == {"b-0": None, "b-1": 1, "b-2": 0}


def test_without_a_guard_a_booking_takes_no_place_and_blocks_no_other(store: Store) -> None:
    for number in range(3):
        add(store, f"b-{number}", number, by=None)
    assert set(places(store).values()) == {None}
    assert add(store, "b-3", 9, Guard(since=day(0))).change == 4


def test_bookings_without_a_place_count_among_those_of_their_user(store: Store) -> None:
    """As bookings of schema 1, which had no places."""
    add(store, "b-0", 0, by=None)
    with pytest.raises(StoreError, match="'alice' would have more than 1 planned or active bookings"):
        add(store, "b-1", 5, Guard(since=day(0), live=1))
    assert set(places(store)) == {"b-0"}


def test_a_write_sees_the_places_that_it_has_given_itself(store: Store) -> None:
    wanted = [a_record(day(number * 3), id=f"b-{number}") for number in range(3)]
    store.write(lambda writing: [writing.add(each, guard=GUARD) for each in wanted])
    assert places(store) == {"b-0": 0, "b-1": 1, "b-2": 2}


def test_a_history_is_read_again_after_a_write(store: Store) -> None:
    def decide(turn: Reading) -> list[int]:
        return [len(turn.history(user)) for user in ("alice", "alice", "bob", "alice")]

    def write(*, adds: bool) -> list[int]:
        return store.write(
            lambda writing: (
                decide(writing),
                writing.add(a_record()) if adds else writing.replan("b-one", (Place("n0", 1),)),
                decide(writing),
            )[-1]
        )

    assert write(adds=True) == [1, 1, 0, 1]
    assert write(adds=False) == [1, 1, 0, 1]


@pytest.mark.parametrize("count", [1, 3])
def test_the_places_of_a_plan_are_read_back_in_order(store: Store, count: int) -> None:
    plan = tuple(Place(f"n{number}", number + 1) for number in reversed(range(count)))
    store.write(lambda writing: writing.add(a_record()))
    store.write(lambda writing: writing.replan("b-one", plan))
    with store.reading() as reading:
        assert [each.plan for each in reading.history("alice")] == [plan]


def test_a_replaced_booking_is_overwritten_in_everything_but_its_id(store: Store) -> None:
    store.write(lambda writing: writing.add(a_record(namespace="lab")))
    other = a_record(
        day(5),
        user="bob",
        model=A6000,
        count=2,
        topology="single-node",
        created=day(-1),
        released=day(6),
        cancelled=day(4),
        plan=(Place("n1", 2),),
        created_by="root",
        policy="p",
        ended_by="root",
        reason="moved",
        waived=True,
    )
    after = store.write(lambda writing: writing.replace(other))
    assert after == msgspec.structs.replace(other, change=2)
    with store.reading() as reading:
        assert reading.find(None, "b-one") == after
        assert reading.history("alice") == []


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.999999])
def test_instants_are_stored_as_the_second_that_they_are_in(store: Store, fraction: float) -> None:
    start = day(1) + timedelta(seconds=fraction)
    store.write(lambda writing: writing.add(a_record(start, day(2))))
    (record,) = store.records_ending_after(day(0))
    assert record.start == day(1)
