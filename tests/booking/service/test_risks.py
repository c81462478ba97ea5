"""Bookings that cannot be kept: each alternative that is offered is taken as its owner would take it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from booking.alternatives import Alternative
from booking.capacity import Capacity
from booking.policy.limits import Limits
from booking.records import BookingRequest, Change, Record
from booking.service import BookingService
from booking.store import open_store
from cluster.fake.clock import FakeClock
from tests.databases import NEEDS_A_SERVER, a_database
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB = somebody("alice"), somebody("bob")
REQUESTS = {
    "planned": a_request(day(5), day(9), count=4),
    "running": a_request(end=day(8), count=4),
    "running since long": a_request(end=day(13), count=4),
    "in its last hours": a_request(end=day(3.2), count=4),
    "one of several nodes": a_request(day(5), day(9), count=6, topology="any"),
    "a pair": a_request(day(6), day(9), count=2),
    "a single one": a_request(day(5), day(9)),
}
"""What alice books; three days later devices are gone."""
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
            change = Change(start=offer.start, end=offer.end, count=offer.count)
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
def world(kind: str, folder: Path, asked: str, left: str) -> Iterator[World]:
    folder.mkdir()
    with ExitStack() as stack:
        yield World(a_database(kind, folder), REQUESTS[asked], LEFT[left], stack)


@pytest.mark.parametrize(
    ("kind", "asked", "left"),
    [
        *(("sqlite", asked, left) for asked in REQUESTS for left in LEFT),
        pytest.param("postgresql", "planned", "two on each", marks=NEEDS_A_SERVER),
    ],
)
def test_whatever_is_offered_instead_can_be_had_and_kept(
    tmp_path: Path, kind: str, asked: str, left: str
) -> None:
    with world(kind, tmp_path / "first", asked, left) as seen:
        offers = seen.offered
        assert bool(seen.service.at_risk([seen.lost])) >= bool(offers)
        assert len(set(offers)) == len(offers) <= 3
    for number, offer in enumerate(offers):
        with world(kind, tmp_path / str(number), asked, left) as here:
            taken = here.take(offer)
            assert (taken.start, taken.end, taken.count) == (offer.start, offer.end, offer.count)
            assert not here.service.at_risk([taken])


def offered(tmp_path: Path, asked: str, left: str) -> set[str]:
    with world("sqlite", tmp_path / "one", asked, left) as here:
        return {offer.why for offer in here.offered}


def test_a_planned_booking_has_others_of_its_model_and_another_model(tmp_path: Path) -> None:
    assert offered(tmp_path, "planned", "half") == {"fewer-gpus"}


def test_a_planned_one_may_be_booked_again_of_another_model(tmp_path: Path) -> None:
    assert offered(tmp_path, "a pair", "nothing") == {"other-model"}


def test_a_planned_one_may_be_booked_again_on_several_nodes(tmp_path: Path) -> None:
    assert "several-nodes" in offered(tmp_path, "planned", "two on each")


def test_what_runs_is_offered_nothing_for_which_it_would_have_to_be_released(tmp_path: Path) -> None:
    assert offered(tmp_path, "running", "half") == {"fewer-gpus"}


def test_where_nothing_of_the_model_is_left_what_runs_has_no_alternative(tmp_path: Path) -> None:
    assert offered(tmp_path, "running", "nothing") == set()


def test_what_is_not_at_risk_has_none(tmp_path: Path) -> None:
    assert offered(tmp_path, "a single one", "half") == set()
