"""What each user is shown: all of the load, but only the names that the policy shows."""

from datetime import datetime

import pytest

from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.server.calendar import Step
from booking.server.capacity.capacity import Capacity
from booking.server.errors import NotAllowedError, RefusedError
from booking.server.records import State
from booking.server.service import BookingService
from booking.server.store import Store
from booking.server.store_records import Filters
from cluster.fake.clock import FakeClock
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()


def seen_by(store: Store, clock: FakeClock, visibility: Visibility) -> BookingService:
    """A service in which both have booked: alice in a namespace, bob in all."""
    policy = Policy(visibility=visibility)
    service = BookingService(store, clock, lambda: policy, lambda: CLUSTER)
    service.create(ALICE, a_request(day(1), day(3), namespace="lab"))
    service.create(BOB, a_request(day(2), day(4), count=2))
    return service


@pytest.mark.parametrize(
    ("visibility", "who", "seen"),
    [
        ("load", ALICE, ["alice", None]),
        ("load", BOB, [None, "bob"]),
        ("load", somebody("carol"), [None, None]),
        ("load", ROOT, ["alice", "bob"]),
        ("names", somebody("carol"), ["alice", "bob"]),
    ],
)
def test_every_user_sees_the_load_but_names_only_where_the_policy_shows_them(
    store: Store, clock: FakeClock, visibility: Visibility, who: Principal, seen: list[str | None]
) -> None:
    service = seen_by(store, clock, visibility)
    drawn = service.overview(who, day(0), day(9)).booked[A100]
    by_start = sorted(drawn, key=lambda each: each.start)
    assert [each.user for each in by_start] == seen
    assert [each.is_mine for each in by_start] == [who is ALICE, who is BOB]
    assert [(each.start, each.end, each.count) for each in by_start] == [
        (day(1), day(3), 1),
        (day(2), day(4), 2),
    ]
    (shown,) = service.availability(who, A100, day(0), day(9))
    assert [each.user for each in shown.bookings] == [user for user in seen if user is not None]
    assert shown.steps == (
        Step(day(0), day(1), 6, 6),
        Step(day(1), day(2), 5, 6),
        Step(day(2), day(3), 3, 6),
        Step(day(3), day(4), 4, 6),
        Step(day(4), day(9), 6, 6),
    )


@pytest.mark.parametrize(
    ("start", "end", "drawn"),
    [(0, 1, 0), (0.5, 1.5, 1), (2, 3, 2), (3, 4, 1), (4, 5, 0)],
    ids=["until the start", "over the start", "in both", "from the end on", "after all"],
)
def test_a_span_shows_only_the_bookings_that_overlap_it(
    store: Store, clock: FakeClock, start: float, end: float, drawn: int
) -> None:
    service = seen_by(store, clock, "names")
    shown = service.overview(ALICE, day(start), day(end))
    assert {model: len(booked) for model, booked in shown.booked.items()} == {A100: drawn, A6000: 0}
    (availability,) = service.availability(ALICE, A100, day(start), day(end))
    assert len(availability.bookings) == drawn


@pytest.mark.parametrize(
    ("node", "model", "start", "end", "shown_for"),
    [
        ("n1", None, 1, 2, [A100, A6000]),
        ("n1", A100, 1, 2, [A100]),
        ("n0", None, 1, 2, [A100]),
        ("n0", None, 3, 5, []),
        ("n0", None, 1, 3, [A100]),
        ("n0", None, 4, 6, []),
    ],
)
def test_maintenance_is_shown_with_the_models_of_its_node_while_it_overlaps_the_span(
    service: BookingService, node: str, model: str | None, start: int, end: int, shown_for: list[str]
) -> None:
    block = service.add_block(ROOT, node=node, model=model, start=day(start), end=day(end), reason="new fans")
    shown = service.availability(ALICE, None, day(0), day(3))
    assert [each.model for each in shown if each.blocks == (block,)] == shown_for
    assert [each.nodes for each in shown] == [CLUSTER.devices[A100], CLUSTER.devices[A6000]]
    drawn = service.overview(ALICE, day(0), day(3))
    assert drawn.blocks == ((block,) if start < 3 else ())
    assert drawn.capacity == CLUSTER


@pytest.mark.parametrize(
    ("start", "end", "rule"),
    [
        (day(2), day(2), "ends-before-it-starts"),
        (day(2), day(1), "ends-before-it-starts"),
        (day(0).replace(tzinfo=None), day(1), "no-offset"),
        (day(0), day(1).replace(tzinfo=None), "no-offset"),
    ],
)
def test_a_calendar_of_an_invalid_span_is_refused(
    service: BookingService, start: datetime, end: datetime, rule: str
) -> None:
    for ask in (
        lambda: service.overview(ALICE, start, end),
        lambda: service.availability(ALICE, A100, start, end),
    ):
        with pytest.raises(RefusedError) as refused:
            ask()
        assert [violation.rule for violation in refused.value.violations] == [rule]


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (None, ["ended", "active", "planned"]),
        ("ended", ["ended"]),
        ("active", ["active"]),
        ("planned", ["planned"]),
    ],
)
def test_a_list_is_filtered_by_state(
    service: BookingService, clock: FakeClock, state: State | None, found: list[str]
) -> None:
    service.create(somebody("u1"), a_request(day(0), day(1)))
    service.create(somebody("u2"), a_request(day(0.5), day(3)))
    service.create(somebody("u3"), a_request(day(2), day(3)))
    clock.advance((day(1) - day(0)).total_seconds())
    shown = service.list(ROOT, Filters(state=state, past=True)).entries
    assert [record.state(clock.now()) for record in shown] == found


def test_only_administrators_list_bookings_of_others_and_every_user_lists_their_own(
    service: BookingService,
) -> None:
    mine, his = service.create(ALICE, a_request(day(1))), service.create(BOB, a_request(day(1)))
    assert service.list(ROOT, Filters(user="bob", past=False)).entries == (his,)
    assert service.list(ALICE, Filters(past=False)).entries == (mine,)
    with pytest.raises(NotAllowedError, match="Only administrators may see bookings of others"):
        service.list(ALICE, Filters(user="bob", past=False))


def test_limits_are_those_of_the_user_for_the_model(service: BookingService) -> None:
    service.add_exemption(
        ROOT, user="alice", model=A100, start=day(0), end=day(9), limits={"longest": "P30D"}, reason="a paper"
    )
    assert service.limits(ALICE, model=A100)["longest"] == "P30D"
    assert service.limits(ALICE, model="NVIDIA RTX A6000")["longest"] == "P14D"
    assert service.limits(ALICE)["longest"] == "P14D"
    assert service.limits(BOB, model=A100)["longest"] == "P14D"


def test_queries_that_need_the_capacity_fail_while_it_is_unknown(store: Store, clock: FakeClock) -> None:
    def unknown() -> Capacity:
        raise ConnectionError

    service = BookingService(store, clock, Limits(), unknown)
    for ask in (service.availability, lambda who, _, start, end: service.overview(who, start, end)):
        with pytest.raises(ConnectionError):
            ask(ALICE, None, day(0), day(1))
    assert service.at_risk([]) == frozenset()
    assert service.list(ALICE).entries == ()
