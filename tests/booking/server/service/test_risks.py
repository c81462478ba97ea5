"""Bookings that cannot be kept: each alternative that is offered is taken as its owner would take it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.errors import UnknownBookingError
from booking.server.evaluation.alternatives import Alternative
from booking.server.records import BookingChange, BookingRequest, Record
from booking.server.service import BookingService
from booking.server.store import Store, open_store
from booking.server.store_records import Block
from cluster.fake.clock import FakeClock
from tests.databases import NEEDS_A_SERVER, a_database
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
REQUESTS = {
    "planned": a_request(day(5), day(9), count=4),
    "running": a_request(end=day(8), count=4),
    "running since long": a_request(end=day(13), count=4),
    "in its last hours": a_request(end=day(3.2), count=4),
    "one of several nodes": a_request(day(5), day(9), count=6, topology="any"),
    "a pair": a_request(day(6), day(9), count=2),
    "a single one": a_request(day(5), day(9)),
}
"""Alice's booking; three days later devices are gone."""
LEFT = {
    "half": Capacity({A100: {"n0": 2, "n1": 1}, A6000: {"n1": 2}}),
    "nothing": Capacity({A100: {}, A6000: {"n1": 2}}),
    "two on each": Capacity({A100: {"n0": 2, "n1": 2}}),
}


class World:
    """Alice's booking, three days later."""

    def __init__(self, url: str, request: BookingRequest, left: Capacity, stack: ExitStack) -> None:
        there, clock = [CLUSTER], FakeClock()
        store = stack.enter_context(closing(open_store(url)))
        self.service = BookingService(store, clock, Limits(), lambda: there[0])
        self.lost = self.service.create(ALICE, request)
        self.service.create(BOB, a_request(day(4), day(6), count=2, topology="any", model=A6000))
        clock.advance((day(3) - day(0)).total_seconds())
        there[0] = left
        self.is_running = self.lost.state(clock.now()) == "active"

    @property
    def offered(self) -> tuple[Alternative, ...]:
        """The alternatives that alice is shown."""
        return self.service.alternatives(ALICE, self.lost.id)

    def take(self, offer: Alternative) -> Record:
        """By a change; or by a new booking, after a cancellation."""
        lost = self.lost
        if offer.model == lost.model and offer.topology == lost.topology:
            change = BookingChange(start=offer.start, end=offer.end, count=offer.count)
            return self.service.change(ALICE, lost.id, change)
        self.service.cancel(ALICE, lost.id)
        request = BookingRequest(
            model=offer.model,
            start=offer.start,
            end=offer.end,
            count=offer.count,
            topology=offer.topology,
        )
        return self.service.create(ALICE, request)


@contextmanager
def world(kind: str, folder: Path, requested: str, left: str) -> Iterator[World]:
    folder.mkdir()
    with ExitStack() as stack:
        yield World(a_database(kind, folder), REQUESTS[requested], LEFT[left], stack)


@pytest.mark.parametrize(
    ("kind", "requested", "left"),
    [
        *(("sqlite", requested, left) for requested in REQUESTS for left in LEFT),
        pytest.param("postgresql", "planned", "two on each", marks=NEEDS_A_SERVER),
    ],
)
def test_every_alternative_can_be_booked_and_is_not_at_risk(
    tmp_path: Path, kind: str, requested: str, left: str
) -> None:
    with world(kind, tmp_path / "first", requested, left) as seen:
        offers = seen.offered
        assert bool(seen.service.at_risk([seen.lost])) >= bool(offers)
        assert len(set(offers)) == len(offers) <= 3
    for number, offer in enumerate(offers):
        with world(kind, tmp_path / str(number), requested, left) as here:
            taken = here.take(offer)
            assert (taken.start, taken.end, taken.count) == (offer.start, offer.end, offer.count)
            assert not here.service.at_risk([taken])


def offered(tmp_path: Path, requested: str, left: str) -> set[str]:
    with world("sqlite", tmp_path / "one", requested, left) as here:
        return {offer.why for offer in here.offered}


def test_a_booking_that_is_not_at_risk_has_no_alternatives(tmp_path: Path) -> None:
    assert offered(tmp_path, "a single one", "half") == set()


# --- which bookings are at risk, and by which maintenance --------------------------------------------


def maintenance(node: str, start: float, end: float, **more: object) -> Block:
    """Maintenance that is not stored."""
    by = {"reason": "new fans", "created_by": "root", "created": day(0)}
    return Block(**{"id": "m-1", "node": node, "start": day(start), "end": day(end), **by, **more})


def test_the_given_bookings_whose_devices_are_gone_are_at_risk(store: Store, clock: FakeClock) -> None:
    there = [CLUSTER]
    service = BookingService(store, clock, Limits(), lambda: there[0])
    lost = service.create(ALICE, a_request(day(1), count=4))
    kept = service.create(BOB, a_request(day(1), model=A6000))
    other = service.create(somebody("carol"), a_request(day(9), count=4))
    assert service.at_risk([lost, kept, other]) == frozenset()
    there[0] = Capacity({A100: {"n0": 3, "n1": 2}, A6000: {"n1": 2}})
    assert service.at_risk([lost, kept, other]) == {lost.id, other.id}
    assert service.at_risk([lost, kept]) == {lost.id}
    assert service.at_risk([kept]) == frozenset()
    there[0] = Capacity({})
    assert service.at_risk([lost, kept, other]) == {lost.id, kept.id, other.id}


def test_cancelled_and_past_bookings_are_not_at_risk(store: Store, clock: FakeClock) -> None:
    there = [CLUSTER]
    service = BookingService(store, clock, Limits(), lambda: there[0])
    cancelled = service.create(ALICE, a_request(day(1)))
    over, runs = service.create(BOB, a_request()), service.create(somebody("carol"), a_request(end=day(4)))
    service.cancel(ALICE, cancelled.id)
    there[0] = Capacity({A100: {}})
    clock.advance((day(2) - day(0)).total_seconds())
    assert service.at_risk([cancelled, over, runs]) == {runs.id}


@pytest.mark.parametrize(
    ("block", "affected"),
    [
        (maintenance("n0", 0, 9), "late early"),
        (maintenance("n0", 0, 3), "early"),
        (maintenance("n0", 4, 5), "late"),
        (maintenance("n0", 3, 4), ""),
        (maintenance("n0", 0, 9, model=A6000), ""),
        (maintenance("n0", 0, 9, count=1), "late"),
        (maintenance("n1", 0, 9), ""),
        (maintenance("n9", 0, 9), ""),
    ],
    ids=["all", "the first", "the second", "between", "another model", "one GPU", "another node", "no node"],
)
def test_maintenance_affects_bookings_that_overlap_it_and_have_no_other_place(
    service: BookingService, block: Block, affected: str
) -> None:
    names = {
        service.create(ALICE, a_request(day(4), day(6), count=4)).id: "late",
        service.create(BOB, a_request(day(1), day(3), count=3)).id: "early",
    }
    found = service.affected(block)
    assert [names[record.id] for record in found] == affected.split()[::-1]
    assert [record.start for record in found] == sorted(record.start for record in found)


def test_stored_maintenance_counts_once_and_other_maintenance_beside_it(service: BookingService) -> None:
    lost = service.create(ALICE, a_request(day(1), day(3), count=3))
    stored = service.add_block(ROOT, node="n0", start=day(1), end=day(3), count=1, reason="new fans")
    assert service.affected(stored) == ()
    assert service.affected(maintenance("n0", 2, 3, count=1)) == (lost,)
    moved = service.affected(maintenance("n0", 2, 3, id=stored.id, count=1))
    assert moved == ()


def test_alternatives_are_shown_to_the_owner_and_administrators_until_the_booking_is_over(
    store: Store, clock: FakeClock
) -> None:
    there = [CLUSTER]
    service = BookingService(store, clock, Limits(), lambda: there[0])
    lost = service.create(ALICE, a_request(day(1), day(3), count=4))
    there[0] = LEFT["half"]
    offers = service.alternatives(ALICE, lost.id)
    assert offers
    assert service.alternatives(ROOT, lost.id) == offers
    with pytest.raises(UnknownBookingError):
        service.alternatives(BOB, lost.id)
    service.cancel(ALICE, lost.id)
    assert service.alternatives(ALICE, lost.id) == ()
