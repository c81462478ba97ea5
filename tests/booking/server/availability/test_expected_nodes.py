"""Nodes that an autoscaler adds: what can be booked of them, and what becomes of that when they are there."""

from datetime import timedelta

from booking.policy.node_profiles import NodeProfile
from booking.server.availability.calendars import calendar_of
from booking.server.availability.expected_nodes import with_expected
from booking.server.availability.replan import Outcome, replanned
from booking.server.capacity.capacity import Capacity
from booking.server.records import Place
from cluster import names
from tests.fakes.objects import A100, EPOCH
from tests.fakes.records import a_record

POOL = {"pool": "a100"}
PROFILE = NodeProfile(name="a100", model=A100, gpus=8, nodes=2, labels=POOL)
EXPECTED = {"a100/1": 8, "a100/2": 8}


def devices(there: Capacity, **labels: dict[str, str]) -> dict[str, int]:
    return dict(with_expected(there, [PROFILE], labels).devices[A100])


def test_a_pool_at_zero_can_be_booked() -> None:
    capacity = with_expected(Capacity(), [PROFILE], {})
    assert capacity.devices == {A100: EXPECTED}
    assert capacity.resources == {A100: names.GPU_RESOURCE}


def test_nodes_of_the_pool_count_once_they_have_their_gpus_also_broken_ones() -> None:
    assert devices(Capacity(), new=POOL) == EXPECTED
    assert devices(Capacity({A100: {"new": 0}}), new=POOL) == {"new": 0, "a100/1": 8}
    assert devices(Capacity({A100: {"other": 4}}), other={"pool": "b"}) == {"other": 4, **EXPECTED}
    three = Capacity({A100: {"n0": 8, "n1": 8, "n2": 8}})
    assert devices(three, n0=POOL, n1=POOL, n2=POOL) == three.devices[A100]


def test_a_booking_of_an_expected_node_moves_to_the_node_that_comes_and_is_never_at_risk() -> None:
    day = timedelta(days=1)
    records = [
        a_record(
            id=f"b-{number}",
            count=8,
            start=EPOCH + day,
            end=EPOCH + 2 * day,
            topology="single-node",
            plan=(Place(node, 8),),
        )
        for number, node in enumerate(EXPECTED)
    ]
    before = with_expected(Capacity(), [PROFILE], {})
    assert replanned(A100, calendar_of(records), before, EPOCH) == Outcome()
    after = with_expected(Capacity({A100: {"new": 8}}), [PROFILE], {"new": POOL})
    outcome = replanned(A100, calendar_of(records), after, EPOCH)
    assert outcome == Outcome(plans={"b-1": (Place("new", 8),)})
