"""Items in their order, against a sorted list."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.decide.booking_plan.item_list import Item, ItemList


def _an_item(number: int, chance: Random) -> Item:
    start = chance.randrange(200)
    return Item(start, f"b{number}", 0, start + chance.randint(1, 9), 1)


@given(st.integers(0, 400), st.randoms(use_true_random=True))
@settings(max_examples=50)
def test_items_come_and_go_and_stay_in_their_order(count: int, chance: Random) -> None:
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


def test_a_row_of_which_all_is_gone_takes_items_again() -> None:
    item = Item(3, "b1", 0, 4, 1)
    empty = ItemList([item]).minus(item)
    assert list(empty) == list(empty.since(0)) == []
    assert list(empty.plus(item).since(3)) == [item]
