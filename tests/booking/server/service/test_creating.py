"""Creating a booking: for which user, beside bookings of others, and whether a dry run answers the same."""

from datetime import timedelta

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import NotAllowedError, RefusedError
from booking.server.records import BookingRequest, SlotRequest
from booking.server.service import BookingService, Key
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.booking.server.service.verdicts import verdict
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
KEY = Key.of("k-1", b"POST /bookings")

REQUESTS = {
    "free": a_request(day(1)),
    "now": a_request(),
    "all there are": a_request(day(20), count=6, topology="any"),
    "in another namespace": a_request(day(1), namespace="team"),
    "of what is taken": a_request(day(1), count=3),
    "across what is taken": a_request(day(0.5), day(6), count=6, topology="any"),
    "of another model": a_request(day(1), model=A6000, count=2),
    "of no model": a_request(day(1), model="H100"),
    "none": a_request(day(1), count=0),
    "more than one node has": a_request(day(1), count=5),
    "more than there are": a_request(day(1), count=7, topology="any"),
    "too long": a_request(day(1), day(31)),
    "backwards": a_request(day(3), day(2)),
    "in the past": a_request(day(-1)),
    "without an offset": a_request(day(1).replace(tzinfo=None), day(3)),
    "nowhere": a_request(day(1), namespace="No Namespace"),
}
ASKERS: dict[str, tuple[Principal, str | None]] = {
    "for oneself": (ALICE, None),
    "by name": (ALICE, "alice"),
    "for another": (ALICE, "dora"),
    "an administrator": (ROOT, None),
    "an administrator for another": (ROOT, "dora"),
    "an administrator for a user who has a booking": (ROOT, "carol"),
    "an administrator for nobody": (ROOT, " "),
    "an administrator for an address": (ROOT, "dora@example.org"),
}


def with_others(service: BookingService) -> BookingService:
    """Two users have booked all A100s but two for three days, in a namespace and in all."""
    service.create(BOB, a_request(day(1), day(4), count=2, namespace="lab"))
    service.create(somebody("carol"), a_request(day(1), day(4), count=2, topology="any"))
    return service


def take_back(service: BookingService) -> None:
    """End the newest booking, so that the next caller finds the same state as the previous one."""
    made = service.show(ROOT, service.audit(ROOT).entries[0].subject)
    end = service.release if made.start == START else service.cancel
    end(ROOT, made.id, reason="next")


@pytest.mark.parametrize("booking_request", REQUESTS.values(), ids=REQUESTS)
def test_a_dry_run_answers_as_the_booking_would_for_every_user(
    service: BookingService, store: Store, booking_request: BookingRequest
) -> None:
    with_others(service)
    for who, user in ASKERS.values():
        stored, denied = store.change(), service.denied(ROOT).entries
        tried = verdict(lambda who=who, user=user: service.dry_run_create(who, booking_request, user=user))
        assert (store.change(), service.denied(ROOT).entries) == (stored, denied)
        made = verdict(lambda who=who, user=user: service.create(who, booking_request, user=user))
        assert tried == made
        if store.change() != stored:
            take_back(service)


@pytest.mark.parametrize("deadline", [None, 3, 4, 9])
@pytest.mark.parametrize("count", [0, 2, 3, 4, 7])
def test_a_dry_run_of_the_first_slot_answers_with_the_slot_that_would_be_booked(
    service: BookingService, store: Store, count: int, deadline: int | None
) -> None:
    with_others(service)
    request = SlotRequest(
        model=A100,
        count=count,
        duration=Duration(days=2),
        not_before=day(1),
        deadline=None if deadline is None else day(deadline),
        namespace="team",
    )
    stored = store.change()
    tried = verdict(lambda: service.dry_run_earliest(ROOT, request, user="alice"))
    assert (store.change(), service.denied(ROOT).entries) == (stored, ())
    assert tried == verdict(lambda: service.create_earliest(ROOT, request, user="alice"))
    is_granted = isinstance(tried, tuple)
    assert store.change() == stored + is_granted
    assert [entry.user for entry in service.denied(ROOT).entries] == ["alice"] * (not is_granted)
    if is_granted:
        (booked,) = service.list(ALICE).entries
        assert (booked.created_by, booked.namespace, booked.count) == ("root", "team", count)


def test_bookings_of_other_namespaces_count_for_the_same_gpus(service: BookingService) -> None:
    with_others(service)
    with pytest.raises(RefusedError) as refused:
        service.create(ALICE, a_request(day(3), day(5), count=3, topology="any", namespace="team"))
    (violation,) = refused.value.violations
    assert (violation.rule, violation.limit) == ("capacity", 2)
    assert refused.value.earliest_start == day(4)
    (shown,) = service.availability(ALICE, A100, day(3), day(5))
    assert [(step.start, step.free) for step in shown.steps] == [(day(3), 2), (day(4), 6)]


def test_the_limits_of_the_user_apply_even_when_an_administrator_books(service: BookingService) -> None:
    service.add_exemption(
        ROOT, user="bob", start=day(0), end=day(30), limits={"longest": "P20D"}, reason="a paper"
    )
    assert service.create(ROOT, a_request(day(1), day(20)), user="bob").end == day(20)
    for user in ("alice", None):
        with pytest.raises(RefusedError, match="14 days"):
            service.create(ROOT, a_request(day(1), day(20)), user=user)


def test_the_key_of_a_booking_for_another_user_belongs_to_the_administrator(service: BookingService) -> None:
    record = service.create(ROOT, a_request(day(1)), user="alice", key=KEY)
    assert service.create(ROOT, a_request(day(1)), user="alice", key=KEY) == record
    with pytest.raises(RefusedError, match="planned"):
        service.create(ALICE, a_request(day(1)), key=KEY)
    assert service.replayed(ALICE, KEY) is None
    assert service.replayed(ROOT, KEY) == record


@pytest.mark.parametrize("user", ["alice", None])
def test_a_booking_in_ones_own_name_has_no_separate_creator(
    service: BookingService, user: str | None
) -> None:
    assert service.create(ALICE, a_request(), user=user).created_by == ""


def test_without_a_known_capacity_nothing_is_booked_and_no_key_is_used(
    store: Store, clock: FakeClock
) -> None:
    there: list[Capacity] = []
    service = BookingService(store, clock, Limits(), lambda: there[0])
    slot = SlotRequest(model=A100, duration=Duration(days=1))
    for ask in (
        lambda: service.create(ALICE, a_request(), key=KEY),
        lambda: service.create_earliest(ALICE, slot, key=KEY),
        lambda: service.dry_run_create(ALICE, a_request()),
        lambda: service.dry_run_earliest(ALICE, slot),
        lambda: service.earliest(ALICE, slot),
    ):
        with pytest.raises(IndexError):
            ask()
    there.append(CLUSTER)
    assert service.create(ALICE, a_request(), key=Key.of(KEY.text, b"another request")).change == 1


def test_in_a_cluster_without_gpus_the_model_is_refused_as_unknown(store: Store, clock: FakeClock) -> None:
    service = BookingService(store, clock, Limits(), lambda: Capacity({}))
    with pytest.raises(RefusedError, match="no node reports GPUs at present"):
        service.create(ALICE, a_request())
    (denied,) = service.denied(ROOT).entries
    assert (denied.user, denied.model, denied.rules) == ("alice", A100, ("unknown-model",))


@pytest.mark.parametrize(("requested", "kept"), [(10**12, 2**31 - 1), (-(10**12), -(2**31 - 1)), (7, 7)])
def test_denied_demand_is_stored_as_a_number_that_every_database_accepts(
    service: BookingService, requested: int, kept: int
) -> None:
    with pytest.raises(RefusedError):
        service.create(ALICE, a_request(day(1), count=requested))
    assert [denied.count for denied in service.denied(ROOT).entries] == [kept]


def test_only_an_administrator_searches_slots_for_another_user(service: BookingService) -> None:
    slot = SlotRequest(model=A100, duration=Duration(days=1))
    for ask in (service.earliest, service.dry_run_earliest, service.create_earliest):
        with pytest.raises(NotAllowedError, match="Only administrators may book for somebody else"):
            ask(BOB, slot, user="alice")
    assert service.create_earliest(BOB, slot, user="bob").end - START == timedelta(days=1)
