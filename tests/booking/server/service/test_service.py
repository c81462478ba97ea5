from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.principals import Principal
from booking.server.calendar import Step
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError, StoreGoneError, UnknownBookingError
from booking.server.records import Place, Record
from booking.server.service import BookingService
from booking.server.store import Store
from booking.server.store_records import Filters
from cluster.decide.identity import Rule
from cluster.fake.clock import START, FakeClock
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import somebody
from tests.fakes.records import CLUSTER, a_request, day

DAY = timedelta(days=1).total_seconds()


ALICE, BOB = somebody("alice"), somebody("bob")


def listed(service: BookingService, who: Principal, *, past: bool = False) -> list[Record]:
    return list(service.list(who, Filters(past=past)).entries)


def rules(refused: pytest.ExceptionInfo[RefusedError]) -> list[str]:
    return [violation.rule for violation in refused.value.violations]


# --- create ------------------------------------------------------------------------------------------


def test_a_booking_is_stored_as_requested(service: BookingService, store: Store) -> None:
    record = service.create(ALICE, a_request(day(1), day(4), count=2, namespace="lab"))
    assert record == Record(
        id=record.id,
        user="alice",
        model=A100,
        count=2,
        topology="single-node",
        namespace="lab",
        start=day(1),
        end=day(4),
        created=START,
        change=1,
        plan=(Place("n1", 2),),
        policy=Policy().version,
    )
    assert store.records_ending_after(START) == [record]


def test_a_refusal_names_all_broken_rules_and_the_earliest_start_and_stores_nothing(
    service: BookingService, store: Store
) -> None:
    service.create(ALICE, a_request())
    with pytest.raises(RefusedError) as refused:
        service.create(ALICE, a_request(day(3), day(3.5)))
    assert rules(refused) == ["no-active-overlap", "cooldown", "shortest"]
    assert all(violation.message in str(refused.value) for violation in refused.value.violations)
    assert store.change() == 1
    with pytest.raises(RefusedError) as refused:
        service.create(ALICE, a_request(day(3), day(4)))
    assert refused.value.earliest_start == day(16)


def test_the_capacity_is_read_outside_the_writing_transaction(store: Store, clock: FakeClock) -> None:
    def capacity() -> Capacity:
        # Inside a transaction it would be refused.
        assert store.write(lambda writing: writing.change()) == 0
        return CLUSTER

    service = BookingService(store, clock, Limits(), capacity)
    assert service.create(ALICE, a_request())


def test_nothing_is_stored_while_the_capacity_is_unknown(store: Store, clock: FakeClock) -> None:
    def unknown() -> Capacity:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        BookingService(store, clock, Limits(), unknown).create(ALICE, a_request())
    assert store.change() == 0


# --- list and show -----------------------------------------------------------------------------------


def test_users_see_their_own_bookings_ordered_by_start(service: BookingService, clock: FakeClock) -> None:
    past = service.create(ALICE, a_request())
    clock.advance(20 * DAY)
    planned = service.create(ALICE, a_request(day(30)))
    service.create(BOB, a_request(day(30)))
    assert listed(service, ALICE) == [planned]
    assert listed(service, ALICE, past=True) == [past, planned]
    assert listed(service, somebody("nobody")) == []


# --- release -----------------------------------------------------------------------------------------


def test_released_gpus_can_be_booked_by_others_and_the_cooldown_counts_from_the_release(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ALICE, a_request(count=4, end=day(10)))
    clock.advance(DAY)
    service.release(ALICE, record.id)
    assert service.create(BOB, a_request(count=4)).start == day(1)
    with pytest.raises(RefusedError) as refused:
        service.create(ALICE, a_request())
    assert rules(refused) == ["cooldown"]
    assert refused.value.earliest_start == day(15)


# --- cancel ------------------------------------------------------------------------------------------


def test_a_cancelled_booking_leaves_room_and_no_cooldown(service: BookingService) -> None:
    record = service.create(ALICE, a_request(day(1)))
    cancelled = service.cancel(ALICE, record.id)
    assert cancelled.cancelled == START
    assert service.create(ALICE, a_request(day(1)))


@pytest.mark.parametrize("name", ["", "b-nothing", "' OR 1=1 --", "x" * 100_000, "\0"])
def test_every_other_text_as_an_id_is_unknown(service: BookingService, name: str) -> None:
    for touch in (service.show, service.release, service.cancel):
        with pytest.raises(UnknownBookingError) as unknown:
            touch(ALICE, name)
        assert len(str(unknown.value)) < 300


# --- availability ------------------------------------------------------------------------------------


def test_availability_gives_the_free_gpus_of_each_model(service: BookingService) -> None:
    service.create(ALICE, a_request(day(1), day(3), count=2))
    service.create(BOB, a_request(day(2), day(4), model=A6000))
    hundred, a6000 = service.availability(ALICE, None, day(0), day(5))
    assert (hundred.model, hundred.capacity) == (A100, 6)
    assert hundred.steps == (
        Step(day(0), day(1), 6, 6),
        Step(day(1), day(3), 4, 6),
        Step(day(3), day(5), 6, 6),
    )
    assert [step.free for step in a6000.steps] == [2, 1, 2]


def test_gpus_under_maintenance_count_neither_as_capacity_nor_as_free(service: BookingService) -> None:
    service.create(BOB, a_request(day(1), day(4), count=3))
    admin = msgspec.structs.replace(ALICE, is_administrator=True)
    node, count = max(CLUSTER.devices[A100].items(), key=lambda each: each[1])
    block = service.add_block(admin, node=node, start=day(2), end=day(3), reason="new fans")
    (shown,) = service.availability(ALICE, A100, day(0), day(5))
    assert [(step.start, step.free, step.capacity) for step in shown.steps] == [
        (day(0), 6, 6),
        (day(1), 3, 6),
        (day(2), max(0, 3 - count), 6 - count),
        (day(3), 3, 6),
        (day(4), 6, 6),
    ]
    assert (shown.blocks, shown.capacity) == ((block,), 6)


def test_availability_of_one_model_in_any_spelling(service: BookingService) -> None:
    (only,) = service.availability(ALICE, "NVIDIA RTX A6000", day(0), day(5))
    assert (only.model, only.steps) == (A6000, (Step(day(0), day(5), 2, 2),))


# --- the database is missing -------------------------------------------------------------------------


def test_l9_without_its_database_the_service_answers_no_request(
    service: BookingService, path: Path, tmp_path: Path
) -> None:
    record = service.create(ALICE, a_request())
    path.rename(tmp_path / "away.db")
    for ask in (
        lambda: service.create(BOB, a_request()),
        lambda: service.dry_run_create(BOB, a_request()),
        lambda: service.release(ALICE, record.id),
        lambda: listed(service, ALICE),
        lambda: service.availability(ALICE, None, day(0), day(1)),
    ):
        with pytest.raises(StoreGoneError):
            ask()
    (tmp_path / "away.db").rename(path)
    assert listed(service, ALICE) == [record]


def test_an_email_address_named_by_an_administrator_means_the_mapped_user_or_is_refused(
    store: Store, clock: FakeClock
) -> None:
    """Otherwise it would be written on objects of the cluster, where everybody sees it (ADR 61)."""
    rules = (Rule(source="oidc", match=r"([^@]+)@example[.]org", user=r"\1"),)
    mapped = BookingService(store, clock, Limits(), lambda: CLUSTER, identity_rules=rules)
    admin = msgspec.structs.replace(ALICE, is_administrator=True)
    assert mapped.create(admin, a_request(), user="bob@example.org").user == "bob"
    plain = BookingService(store, clock, Limits(), lambda: CLUSTER)
    for service, address in ((mapped, "bob@example.com"), (plain, "bob@example.org")):
        with pytest.raises(RefusedError, match="it is an e-mail address, and no identity rule"):
            service.create(admin, a_request(), user=address)
        with pytest.raises(RefusedError, match="it is an e-mail address"):
            service.add_exemption(
                admin, user=address, start=START, end=day(2), limits={"longest": "P20D"}, reason="A paper."
            )
    assert [each.user for each in plain.list(admin).entries] == ["bob"]
