"""A booking as items, and the devices that its pods hold off the plan."""

import pytest

from cluster.decide.booking_plan import (
    NO_NODE,
    OFF_PLAN,
    Item,
    PlannedBooking,
    is_whole,
    off_plan_pods,
    planned,
)


def _booking(count: int, *plan: tuple[str, int], whole: bool = False) -> PlannedBooking:
    return PlannedBooking("b-1", 0, 90, count, is_whole=whole, plan=plan)


@pytest.mark.parametrize(
    ("count", "topology", "expected"),
    [
        (1, "single-node", False),
        (2, "single-node", True),
        (2, "any", False),
        (0, "single-node", False),
    ],
)
def test_a_booking_is_whole_when_several_devices_need_one_node(
    count: int, topology: str, *, expected: bool
) -> None:
    assert is_whole(count, topology) == expected


@pytest.mark.parametrize(
    ("plan", "node"),
    [
        ((("n1", 2),), "n1"),
        ((("n1", 3),), "n1"),
        ((("n1", 1),), NO_NODE),
        ((("n0", 1), ("n1", 1)), NO_NODE),
        ((("n0", 2), ("n1", 2)), NO_NODE),
        ((), NO_NODE),
    ],
    ids=["exact", "before-it-shrank", "too-small", "divided", "on-two-nodes", "without-plan"],
)
def test_a_whole_booking_is_one_item_on_the_node_of_its_plan_that_is_large_enough(
    plan: tuple[tuple[str, int], ...], node: str
) -> None:
    assert _booking(2, *plan, whole=True).placed() == [(Item(0, "b-1", 0, 90, 2), node)]


@pytest.mark.parametrize(
    ("plan", "nodes"),
    [
        ((("n1", 1), ("n0", 1)), ["n0", "n1"]),
        ((("n1", 2), ("n0", 2)), ["n1", "n1"]),
        ((("n1", 1),), [NO_NODE, NO_NODE]),
        ((), [NO_NODE, NO_NODE]),
    ],
    ids=["by-node", "before-it-shrank", "too-small", "without-plan"],
)
def test_single_devices_are_one_item_each_and_all_have_a_node_or_none_has(
    plan: tuple[tuple[str, int], ...], nodes: list[str]
) -> None:
    placed = _booking(2, *plan).placed()
    assert [item for item, _ in placed] == [Item(0, "b-1", serial, 90, 1) for serial in (0, 1)]
    assert [node for _, node in placed] == nodes


def test_the_plan_of_items_is_devices_by_node_without_those_off_the_plan() -> None:
    stray = Item(0, "b-1", OFF_PLAN, 90, 4)
    large = Item(0, "b-1", 3, 90, 3)
    placed = [*_booking(3, ("n1", 1), ("n0", 2)).placed(), (large, "n1"), (stray, "n0")]
    assert planned(placed) == (("n0", 2), ("n1", 4))


def test_a_plan_that_is_read_back_from_its_items_is_the_same() -> None:
    plan = (("n0", 2), ("n1", 1))
    assert planned(_booking(3, *plan).placed()) == plan


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ({"n0": 2}, []),
        ({"n0": 1}, []),
        ({"n0": 3}, [("n0", 0, 1)]),
        ({"n9": 2, "n1": 1}, [("n1", 0, 1), ("n9", 1, 2)]),
    ],
    ids=["as-planned", "fewer", "more", "elsewhere"],
)
def test_pods_hold_devices_off_the_plan_beyond_the_booking_s_place_on_their_node(
    pods: dict[str, int], expected: list[tuple[str, int, int]]
) -> None:
    found = off_plan_pods(_booking(2, ("n0", 2)).placed(), pods)
    assert found == [(Item(0, "b-1", OFF_PLAN + number, 90, size), node) for node, number, size in expected]
