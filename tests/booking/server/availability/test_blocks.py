"""Which GPUs of a model are unavailable over time: by maintenance, MAIA's grants, and pauses."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from booking.server.availability.calendars import seconds
from booking.server.availability.current_plan import blocks_of
from booking.server.capacity.capacity import Capacity, Grant
from booking.server.store_records import Block
from cluster.decide.booking_plan import Block as Load
from tests.booking.server.availability.world import a_block, hour
from tests.fakes.objects import A100, A6000

DEVICES: Final = Capacity({A100: {"n1": 2, "n0": 4}, A6000: {"n0": 1}})
SECOND: Final = timedelta(seconds=1)


def taken(
    *blocks: Block, capacity: Capacity = DEVICES, now: int = 1, pauses: Sequence[Grant] = ()
) -> list[Load]:
    """(node, from hour, until hour, devices) of the A100s that are unavailable."""
    found = blocks_of(A100, capacity, blocks, hour(now), pauses=pauses)
    zero = seconds(hour(0))
    return [(node, (start - zero) // 3600, (end - zero) // 3600, count) for node, start, end, count in found]


def granted(*grants: Grant, model: str = A100) -> Capacity:
    return replace(DEVICES, grants={model: grants})


def test_without_blocks_everything_is_available() -> None:
    assert blocks_of(A100, DEVICES, (), hour(0)) == ()


def test_a_block_without_a_number_takes_all_devices_of_its_node() -> None:
    assert taken(a_block("n0", 2, 6)) == [("n0", 2, 6, 4)]
    assert taken(a_block("n0", 2, 6, count=3)) == [("n0", 2, 6, 3)]


def test_a_block_takes_devices_of_its_model_or_of_every_model() -> None:
    assert taken(a_block("n0", 2, 6, model=A100)) == [("n0", 2, 6, 4)]
    assert taken(a_block("n0", 2, 6, model=A6000)) == []
    assert blocks_of(A6000, DEVICES, [a_block("n0", 2, 6)], hour(0))[0][-1] == 1
    assert blocks_of("unknown", DEVICES, [a_block("n0", 2, 6)], hour(0)) == ()


def test_a_block_of_a_node_that_has_none_of_the_model_takes_nothing() -> None:
    assert taken(a_block("n9", 2, 6)) == []
    assert taken(a_block("n1", 2, 6), capacity=Capacity({A100: {"n0": 2, "n1": 0}})) == []
    assert taken(a_block("n1", 2, 6, count=1), capacity=Capacity({A100: {"n0": 2, "n1": 0}})) == []


def test_a_block_that_is_over_takes_nothing_and_one_that_has_begun_is_shown_from_its_start() -> None:
    block = a_block("n0", 2, 6)
    assert taken(block, now=6) == []
    assert taken(block, now=5) == [("n0", 2, 6, 4)]
    assert len(blocks_of(A100, DEVICES, [block], hour(6) - SECOND)) == 1


def test_blocks_of_one_node_that_overlap_are_added_up_to_what_it_has() -> None:
    blocks = (a_block("n0", 2, 6, count=3), a_block("n0", 4, 8, count=2))
    assert taken(*blocks) == [("n0", 2, 4, 3), ("n0", 4, 6, 4), ("n0", 6, 8, 2)]


def test_the_nodes_are_ordered_by_name() -> None:
    blocks = (a_block("n1", 2, 6), a_block("n0", 3, 5))
    assert [load[0] for load in taken(*blocks)] == ["n0", "n1"]


def test_devices_that_maia_has_granted_are_unavailable_until_the_grants_end() -> None:
    capacity = granted(Grant("n0", 1, hour(5)), Grant("n0", 2, hour(3)))
    assert taken(capacity=capacity) == [("n0", 1, 3, 3), ("n0", 3, 5, 1)]


def test_a_grant_of_another_model_takes_nothing() -> None:
    assert taken(capacity=granted(Grant("n0", 1, hour(5)), model=A6000)) == []


@pytest.mark.parametrize("until", [0, 1])
def test_a_grant_that_is_over_takes_nothing(until: int) -> None:
    assert taken(capacity=granted(Grant("n0", 1, hour(until)))) == []


def test_pauses_take_their_devices_besides_blocks_and_grants() -> None:
    capacity = replace(granted(Grant("n0", 1, hour(4))), pauses={A100: (Grant("n1", 2, hour(2)),)})
    found = taken(a_block("n0", 3, 6, count=1), capacity=capacity, pauses=[Grant("n0", 2, hour(2))])
    assert found == [("n0", 1, 2, 3), ("n0", 2, 3, 1), ("n0", 3, 4, 2), ("n0", 4, 6, 1)]
