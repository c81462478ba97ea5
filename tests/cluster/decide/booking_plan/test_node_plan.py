"""One node of a booking plan, and the items that have their place there."""

import pytest

from cluster.decide.booking_plan.item_list import Item
from cluster.decide.booking_plan.node_plan import NodePlan

LONG, SHORT = Item(0, "b-1", 0, 50, 1), Item(20, "b-2", 0, 30, 2)
NIGHT = (25, 40, 1)
"""Maintenance of one device."""


def _plan() -> NodePlan:
    return NodePlan.of(4, [SHORT, LONG], [NIGHT])


@pytest.mark.parametrize(
    ("start", "end", "free"),
    [(0, 20, 3), (0, 21, 1), (25, 30, 0), (30, 40, 2), (40, 50, 3), (50, 60, 4)],
)
def test_room_is_what_items_and_maintenance_leave_free_for_the_whole_span(
    start: int, end: int, free: int
) -> None:
    assert _plan().room(start, end) == free


def test_room_is_negative_where_more_is_taken_than_there_is() -> None:
    assert NodePlan.of(1, [SHORT], []).room(20, 21) == -1


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 20, [LONG]),
        (0, 21, [LONG, SHORT]),
        (29, 30, [LONG, SHORT]),
        (30, 40, [LONG]),
        (49, 60, [LONG]),
        (50, 60, []),
    ],
)
def test_items_that_share_an_instant_overlap_however_long_ago_they_began(
    start: int, end: int, expected: list[Item]
) -> None:
    assert list(_plan().overlapping(start, end)) == expected


def test_a_later_item_that_is_longer_than_all_before_is_found() -> None:
    plan = NodePlan.of(4, [SHORT], []).plus(LONG)
    assert list(plan.overlapping(45, 46)) == [LONG]


def test_a_later_shorter_item_does_not_hide_a_longer_one() -> None:
    plan = NodePlan.of(4, [LONG], []).plus(SHORT)
    assert list(plan.overlapping(45, 46)) == [LONG]


def test_blocked_time_is_maintenance_alone() -> None:
    assert _plan().blocked(0, 60).spans() == [NIGHT]


def test_an_item_that_is_added_and_taken_away_again_leaves_the_node_as_it_was() -> None:
    item = Item(10, "b-3", 0, 35, 1)
    before = _plan()
    with_it = before.plus(item)
    after = with_it.minus(item)
    assert (with_it.room(10, 20), before.room(10, 20)) == (2, 3)
    assert after.load.spans() == before.load.spans()
    assert list(after.items) == list(before.items) == [LONG, SHORT]
