"""What a change means before it is judged: the whole request, and whether it ends or gives back."""

from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from booking.policy.limits import Limits
from booking.server.errors import RefusedError
from booking.server.records import BookingChange, BookingRequest, Place, Record
from booking.server.service import BookingService
from booking.server.service.changing import _differs, _ends_it, _gives_back, _request
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from cluster.objects.bookings import Topology
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_record, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
RECORD = a_record(day(1), day(3), count=2, namespace="lab", topology="any")
SECOND = timedelta(seconds=1)


# --- the whole request -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (BookingChange(), {}),
        (BookingChange(start=day(2)), {"start": day(2)}),
        (BookingChange(end=day(9)), {"end": day(9)}),
        (BookingChange(count=5), {"count": 5}),
        (BookingChange(count=0), {"count": 0}),
        (BookingChange(namespace="team"), {"namespace": "team"}),
        (BookingChange(namespace=None), {"namespace": None}),
        (BookingChange(start=day(2), end=day(9), count=1), {"start": day(2), "end": day(9), "count": 1}),
    ],
    ids=["nothing", "start", "end", "count", "no GPU", "namespace", "every namespace", "several"],
)
def test_fields_that_a_change_does_not_name_stay(change: BookingChange, differs: dict[str, object]) -> None:
    as_it_is = BookingRequest(model=A100, start=day(1), end=day(3), count=2, namespace="lab", topology="any")
    assert _request(RECORD, change) == msgspec.structs.replace(as_it_is, **differs)


@pytest.mark.parametrize(
    ("had", "topology", "count", "requested"),
    [
        (1, "any", UNSET, "any"),
        (1, "any", 1, "any"),
        (1, "any", 2, None),
        (1, "single-node", 3, None),
        (2, "any", 3, "any"),
        (2, "single-node", 3, "single-node"),
        (2, "single-node", 1, "single-node"),
        (2, "any", UNSET, "any"),
    ],
)
def test_one_gpu_that_becomes_several_is_requested_like_a_new_booking(
    had: int, topology: Topology, count: int | UnsetType, requested: Topology | None
) -> None:
    record = msgspec.structs.replace(RECORD, count=had, topology=topology)
    assert _request(record, BookingChange(count=count)).topology == requested


# --- an end that is a release ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "now", "ends"),
    [
        (BookingChange(end=day(2)), day(2), True),
        (BookingChange(end=day(2) - SECOND), day(2), True),
        (BookingChange(end=day(1) + SECOND), day(2), True),
        (BookingChange(end=day(2) + SECOND), day(2), False),
        (BookingChange(end=day(1)), day(2), False),
        (BookingChange(end=day(0)), day(2), False),
        (BookingChange(start=day(1), end=day(2)), day(2), True),
        (BookingChange(start=day(1.5), end=day(2)), day(2), False),
        (BookingChange(end=day(2), count=1), day(2), True),
        (BookingChange(), day(2), False),
        (BookingChange(end=day(2).replace(tzinfo=None)), day(2), False),
        (BookingChange(end=day(2).replace(year=9999)), day(2), False),
        (BookingChange(end=day(1) + SECOND), day(1), False),
        (BookingChange(end=day(0.5)), day(0.75), False),
        (BookingChange(end=day(2)), day(3), False),
        (BookingChange(end=day(2)), day(9), False),
    ],
    ids=[
        "to now",
        "to a second ago",
        "to its first second",
        "to the next second",
        "to its start",
        "before its start",
        "with its own start",
        "with another start",
        "with another count",
        "no end",
        "no offset",
        "no such year",
        "as it begins",
        "planned",
        "at its end",
        "long over",
    ],
)
def test_an_end_that_is_not_in_the_future_ends_only_a_running_booking(
    change: BookingChange, now: datetime, *, ends: bool
) -> None:
    assert _ends_it(RECORD, change, now) == ends


# --- giving back, and no change at all ---------------------------------------------------------------

RECORDS = st.builds(
    lambda start, length, count: a_record(day(start), day(start + length), count=count),
    st.integers(0, 4),
    st.integers(1, 4),
    st.integers(1, 3),
)


@given(RECORDS, RECORDS)
def test_a_change_gives_back_when_it_has_no_more_gpus_than_before_at_any_instant(
    before: Record, after: Record
) -> None:
    def load(record: Record, instant: datetime) -> int:
        return record.count if record.start <= instant < record.end else 0

    instants = [day(number) for number in range(9)]
    assert _gives_back(before, after) == all(load(after, at) <= load(before, at) for at in instants)


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        ({}, False),
        ({"start": day(2)}, True),
        ({"end": day(4)}, True),
        ({"count": 1}, True),
        ({"namespace": None}, True),
        ({"plan": (Place("n1", 2),)}, False),
        ({"policy": "newer"}, False),
        ({"topology": "single-node"}, False),
        ({"change": 9}, False),
    ],
    ids=["nothing", "start", "end", "count", "namespace", "plan", "policy", "topology", "change"],
)
def test_another_place_or_a_newer_policy_alone_is_not_a_change(
    more: dict[str, object], *, differs: bool
) -> None:
    assert _differs(msgspec.structs.replace(RECORD, **more), RECORD) == differs


# --- beside others, in the database ------------------------------------------------------------------


def test_a_change_that_moves_others_writes_both_in_one_transaction(
    service: BookingService, store: Store
) -> None:
    """Bob's two GPUs are moved from the large node, so that Alice's four have it."""
    small = service.create(ALICE, a_request(day(1), count=1))
    his = service.create(BOB, a_request(day(1), count=2))
    store.write(lambda writing: writing.replan(small.id, (Place("n1", 1),)))
    store.write(lambda writing: writing.replan(his.id, (Place("n0", 2),)))
    before = store.change()
    larger = service.change(ALICE, small.id, BookingChange(count=4))
    assert larger.plan == (Place("n0", 4),)
    moved = service.show(BOB, his.id)
    assert moved.plan == (Place("n1", 2),)
    assert {larger.change, moved.change} == {before + 1, before + 2}
    assert [entry.subject for entry in service.audit(ROOT).entries if "change" in entry.action] == [small.id]


def test_a_refused_change_moves_no_booking(service: BookingService, store: Store) -> None:
    small = service.create(ALICE, a_request(day(1), count=1))
    service.create(BOB, a_request(day(1), count=3))
    before, change = store.records_ending_after(START), store.change()
    with pytest.raises(RefusedError):
        service.change(ALICE, small.id, BookingChange(count=4))
    assert (store.records_ending_after(START), store.change()) == (before, change)


def test_a_refused_change_is_answered_with_what_would_be_accepted(service: BookingService) -> None:
    mine = service.create(ALICE, a_request(day(1), day(3)))
    with pytest.raises(RefusedError) as refused:
        service.change(ALICE, mine.id, BookingChange(end=day(30)))
    offer, *_ = refused.value.alternatives
    assert (offer.start, offer.end, offer.count) == (day(1), day(15), 1)
    assert service.change(ALICE, mine.id, BookingChange(end=offer.end)).end == day(15)


@pytest.mark.parametrize("reason", ["", " ", "x" * 501, "a\x00b"])
def test_an_invalid_reason_is_refused_to_the_owner_too_and_nothing_is_changed(
    service: BookingService, store: Store, reason: str
) -> None:
    mine = service.create(ALICE, a_request(day(1), day(3)))
    with pytest.raises(RefusedError) as refused:
        service.change(ALICE, mine.id, BookingChange(end=day(4)), reason=reason)
    (violation,) = refused.value.violations
    assert violation.rule in {"no-reason", "reason-too-long", "not-a-reason"}
    assert (store.change(), service.denied(ROOT).entries) == (1, ())


def test_a_change_records_the_policy_in_force_when_it_is_made(store: Store, clock: FakeClock) -> None:
    first = BookingService(store, clock, Limits(), lambda: CLUSTER)
    mine = first.create(ALICE, a_request(day(1), day(3)))
    second = BookingService(store, clock, Limits(max_planned=2), lambda: CLUSTER)
    after = second.change(ALICE, mine.id, BookingChange(end=day(4)))
    assert after.policy != mine.policy
    assert after.policy == second.create(ALICE, a_request(day(30))).policy
