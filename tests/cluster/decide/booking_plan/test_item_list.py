"""Items in their order, against a sorted list."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.decide.booking_plan.item_list import LENGTH, Item, ItemList


def _an_item(number: int, chance: Random) -> Item:
    start = chance.randrange(200)
    return Item(start, f"b{number}", 0, start + chance.randint(1, 9), 1)


@given(st.integers(0, 400), st.randoms(use_true_random=True))
@settings(max_examples=50)
def test_items_added_and_removed_stay_in_their_order(count: int, chance: Random) -> None:
    items = [_an_item(number, chance) for number in range(count)]
    row = before = ItemList(items)
    here = set(items)
    for number in range(200):
        if here and chance.random() < 0.5:
            gone = chance.choice(sorted(here))
            row, here = row.minus(gone), here - {gone}
        else:
            come = _an_item(1000 + number, chance)
            row, here = row.plus(come), here | {come}
        start = chance.randrange(-1, 220)
        assert list(row.since(start)) == sorted(item for item in here if item.start >= start)
    assert list(row) == sorted(here)
    assert list(before) == sorted(items), "what it was made from is as it was"


def test_an_emptied_list_takes_items_again() -> None:
    item = Item(3, "b1", 0, 4, 1)
    empty = ItemList([item]).minus(item)
    assert list(empty) == list(empty.since(0)) == []
    assert list(empty.plus(item).since(3)) == [item]


def _of(*starts: int) -> list[Item]:
    return [Item(start, f"b{number}", 0, start + 1, 1) for number, start in enumerate(starts)]


def test_items_are_ordered_by_start_then_booking_serial_end_and_size() -> None:
    ordered = [
        Item(1, "b", 0, 9, 1),
        Item(2, "a", 0, 5, 1),
        Item(2, "a", 1, 4, 1),
        Item(2, "b", 0, 3, 1),
        Item(2, "b", 0, 3, 2),
        Item(2, "b", 0, 4, 1),
    ]
    assert list(ItemList(reversed(ordered))) == ordered


def test_an_empty_list_has_no_items_at_any_time() -> None:
    assert list(ItemList()) == list(ItemList().since(-5)) == []


def test_a_first_item_can_be_added_to_an_empty_list() -> None:
    (item,) = _of(3)
    assert list(ItemList().plus(item)) == [item]


def test_an_item_that_begins_at_the_instant_counts_and_one_before_it_does_not() -> None:
    before, at, after = _of(2, 3, 4)
    row = ItemList([after, before, at])
    assert list(row.since(2)) == [before, at, after]
    assert list(row.since(3)) == [at, after]
    assert list(row.since(4)) == [after]
    assert list(row.since(5)) == []


@pytest.mark.parametrize("count", [LENGTH - 1, LENGTH, LENGTH + 1, 2 * LENGTH, 5 * LENGTH + 3])
def test_since_finds_all_items_at_the_edges_of_pieces(count: int) -> None:
    items = _of(*range(count))
    row = ItemList(items)
    for start in (0, LENGTH - 1, LENGTH, LENGTH + 1, 2 * LENGTH, count - 1):
        assert list(row.since(start)) == items[start:]


def test_items_of_one_start_are_found_on_both_sides_of_an_edge() -> None:
    items = sorted(_of(*[7] * (3 * LENGTH)))
    row = ItemList(items)
    assert list(row.since(7)) == items
    assert list(row.since(8)) == []


def test_an_item_that_makes_a_piece_too_long_divides_it() -> None:
    row = ItemList()
    for item in _of(*range(5 * LENGTH)):
        row = row.plus(item)
    lengths = [len(piece) for piece in row._pieces]
    assert sum(lengths) == 5 * LENGTH
    assert all(LENGTH <= length < 2 * LENGTH for length in lengths)


def test_items_can_be_added_before_and_after_all_others() -> None:
    items = _of(*range(10, 10 + 2 * LENGTH))
    first, last = Item(0, "x", 0, 1, 1), Item(999, "x", 0, 1000, 1)
    assert list(ItemList(items).plus(first)) == [first, *items]
    assert list(ItemList(items).plus(last)) == [*items, last]


def test_the_first_and_last_items_of_a_piece_can_be_removed() -> None:
    items = _of(*range(3 * LENGTH))
    for gone in (0, LENGTH - 1, LENGTH, 2 * LENGTH, 3 * LENGTH - 1):
        left = [item for item in items if item != items[gone]]
        found = ItemList(items).minus(items[gone])
        assert list(found) == left
        assert list(found.since(LENGTH)) == [item for item in left if item.start >= LENGTH]


def test_an_emptied_piece_leaves_the_others() -> None:
    items = _of(*range(3 * LENGTH))
    row = ItemList(items)
    for item in items[LENGTH : 2 * LENGTH]:
        row = row.minus(item)
    assert list(row) == [*items[:LENGTH], *items[2 * LENGTH :]]
    assert list(row.since(LENGTH)) == items[2 * LENGTH :]
