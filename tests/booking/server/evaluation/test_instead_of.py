"""What the owner of a booking that cannot be kept could have at once in its place."""

from datetime import datetime

import pytest

from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.alternatives import MOST, Alternative
from booking.server.evaluation.evaluate import instead_of
from booking.server.records import Place, Record
from cluster.fake.clock import START
from tests.booking.server.evaluation.planned import planned
from tests.fakes.objects import A100, A6000
from tests.fakes.records import CLUSTER, a_record, day

PLANNED = a_record(day(2), day(5), count=4, plan=(Place("n0", 4),), topology="single-node")
RUNNING = a_record(day(-1), day(5), count=4, plan=(Place("n0", 4),), topology="single-node")
TWO_EACH = Capacity({A100: {"n0": 2, "n1": 2}, A6000: {"n1": 4}})
"""Two of the four GPUs of n0 are gone."""


def offered(
    lost: Record,
    *others: Record,
    capacity: Capacity = TWO_EACH,
    limits: Limits | None = None,
    now: datetime = START,
) -> tuple[Alternative, ...]:
    """The alternatives, where alice's records are ``lost`` and those of the others that are hers."""
    records = (lost, *others)
    return instead_of(
        lost,
        now,
        lambda _: limits or Limits(),
        history=[each for each in records if each.user == lost.user],
        free_capacity_for=planned(records, capacity, now, lost),
        capacity=capacity,
    )


@pytest.mark.parametrize("lost", [PLANNED, RUNNING], ids=["planned", "running"])
def test_a_booking_whose_gpus_are_there_needs_nothing_instead(lost: Record) -> None:
    assert offered(lost, capacity=CLUSTER) == ()


def test_a_planned_booking_may_be_booked_again_on_several_nodes_or_another_model_or_be_made_smaller() -> None:
    found = offered(PLANNED)
    assert [(each.why, each.model, each.count, each.topology) for each in found] == [
        ("several-nodes", A100, 4, "any"),
        ("fewer-gpus", A100, 2, "single-node"),
        ("other-model", A6000, 4, "single-node"),
    ]
    assert {(each.start, each.end) for each in found} == {(day(2), day(5))}


def test_a_running_booking_stays_on_its_node_and_its_model_and_keeps_its_start() -> None:
    found = offered(RUNNING)
    assert found
    assert {(each.model, each.topology, each.start) for each in found} == {(A100, "single-node", day(-1))}
    assert (found[0].why, found[0].count, found[0].end) == ("fewer-gpus", 2, day(5))


@pytest.mark.parametrize("lost", [PLANNED, RUNNING], ids=["planned", "running"])
def test_a_booking_is_no_hindrance_to_what_takes_its_place(lost: Record) -> None:
    """Alice may have one planned booking and one running: this one."""
    assert len(offered(lost, limits=Limits(max_active=1, max_planned=1))) == MOST


def test_other_bookings_of_the_owner_count_for_a_new_booking_and_not_for_a_change() -> None:
    hers = a_record(day(20), day(22), id="b-hers")
    found = offered(PLANNED, hers, limits=Limits(max_planned=1))
    assert found
    assert {(each.model, each.topology) for each in found} == {(A100, "single-node")}


def test_gpus_of_other_users_are_not_offered() -> None:
    theirs = a_record(day(0), day(9), user="bob", id="b-bob", count=3, plan=(Place("n0", 1), Place("n1", 2)))
    assert [(each.why, each.model, each.count, each.start) for each in offered(PLANNED, theirs)] == [
        ("fewer-gpus", A100, 1, day(2)),
        ("other-model", A6000, 4, day(2)),
        ("several-nodes", A100, 4, day(9)),
    ]
