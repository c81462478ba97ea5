"""Blocks and exemptions: queries by span and user give what a search through all gives, in writes too."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.store import Reading, Store, StoreError, Writing, open_store
from booking.server.store_records import Block, Exemption
from tests.fakes.dice import Dice
from tests.fakes.objects import A100
from tests.fakes.records import day

HOUR = timedelta(hours=1)
FROM, UNTIL = day(1), day(3)
NODES = ("n0", "n1", "n2")
USERS = ("alice", "bob")


def a_block(name: str = "k-1", start: datetime = FROM, end: datetime = UNTIL, **more: object) -> Block:
    block = Block(id=name, node="n0", start=start, end=end, reason="fan", created_by="bob", created=day(0))
    return msgspec.structs.replace(block, **more)


def an_exemption(
    name: str = "e-1", start: datetime = FROM, end: datetime = UNTIL, **more: object
) -> Exemption:
    exemption = Exemption(
        id=name,
        user="alice",
        limits={"longest": "P21D"},
        start=start,
        end=end,
        reason="thesis",
        created_by="bob",
        created=day(0),
    )
    return msgspec.structs.replace(exemption, **more)


class Everything:
    """A store of many blocks and exemptions, and they themselves, by start and id."""

    def __init__(self, store: Store, blocks: list[Block], exemptions: list[Exemption]) -> None:
        self.store = store
        self.blocks = sorted(blocks, key=lambda each: (each.start, each.id))
        self.exemptions = sorted(exemptions, key=lambda each: (each.start, each.id))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    dice = Dice(5)

    def a_span() -> tuple[datetime, datetime]:
        start = day(0) + dice.below(48) * HOUR
        return start, start + (1 + dice.below(24)) * HOUR

    blocks = [a_block(f"k-{number}", *a_span(), node=NODES[dice.below(3)]) for number in range(40)]
    exemptions = [an_exemption(f"e-{number}", *a_span(), user=USERS[dice.below(2)]) for number in range(40)]
    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'bookings.db'}"
    with closing(open_store(url)) as store:
        store.write(lambda writing: [writing.block_add(each) for each in blocks])
        store.write(lambda writing: [writing.exemption_add(each) for each in exemptions])
        yield Everything(store, blocks, exemptions)


INSTANTS = st.builds(
    lambda hour, beside: day(0) + hour * HOUR + timedelta(microseconds=beside),
    st.integers(-2, 75),
    st.sampled_from((-1, 0, 1, 500_000)),
)
"""At which blocks and exemptions begin and end, and just beside them."""


@given(st.none() | INSTANTS, st.none() | INSTANTS)
def test_blocks_of_a_span_are_those_that_overlap_it(
    everything: Everything, start: datetime | None, end: datetime | None
) -> None:
    if start is not None and end is not None and end <= start:
        start, end = end, start + timedelta(microseconds=1)
    found = everything.store.read(lambda reading: reading.blocks(start=start, end=end))
    assert found == [
        each
        for each in everything.blocks
        if (start is None or each.end > start) and (end is None or each.start < end)
    ]


@given(st.sampled_from((None, *USERS, "nobody")), st.none() | INSTANTS)
def test_exemptions_in_force_have_begun_and_are_not_over(
    everything: Everything, user: str | None, now: datetime | None
) -> None:
    found = everything.store.read(lambda reading: reading.exemptions(user, now))
    assert found == [
        each
        for each in everything.exemptions
        if user in {None, each.user} and (now is None or each.start <= now < each.end)
    ]


@pytest.mark.parametrize(
    "block",
    [
        a_block(),
        a_block(model=A100, count=2),
        a_block(count=1),
        a_block(reason="β☃ '; DROP TABLE blocks; --", node="n" * 253),
        a_block(start=day(-9), end=day(999)),
    ],
    ids=["the whole node", "of a model", "of any model", "any text", "long"],
)
def test_a_block_is_read_back_as_stored_alone_and_in_lists(store: Store, block: Block) -> None:
    store.write(lambda writing: writing.block_add(block))
    with store.reading() as reading:
        assert reading.block(block.id) == block
        assert reading.blocks() == [block]


@pytest.mark.parametrize(
    "exemption",
    [
        an_exemption(),
        an_exemption(model=A100),
        an_exemption(limits={"max_planned": 2, "longest": None, "days": ["mon"], "more": {"a": [1]}}),
        an_exemption(reason="β☃", user="a" * 253),
    ],
    ids=["of every model", "of one model", "any limits", "any text"],
)
def test_an_exemption_is_read_back_as_stored_alone_and_in_lists(store: Store, exemption: Exemption) -> None:
    store.write(lambda writing: writing.exemption_add(exemption))
    with store.reading() as reading:
        assert reading.exemption(exemption.id) == exemption
        assert reading.exemptions(None, None) == [exemption]


def test_a_write_sees_its_own_changes_even_after_an_earlier_query(store: Store) -> None:
    def seen(reading: Reading) -> tuple[list[str], list[str]]:
        return (
            [each.id for each in reading.blocks(start=day(0))],
            [each.id for each in reading.exemptions("alice", day(2))],
        )

    def decide(writing: Writing) -> list[tuple[list[str], list[str]]]:
        states = [seen(writing)]
        writing.block_add(a_block("k-1"))
        writing.exemption_add(an_exemption("e-1"))
        states.append(seen(writing))
        writing.block_remove("k-1")
        writing.exemption_remove("e-1")
        return [*states, seen(writing)]

    assert store.write(decide) == [([], []), (["k-1"], ["e-1"]), ([], [])]


def test_a_reading_sees_one_state_and_the_next_reading_the_next(store: Store) -> None:
    with store.reading() as reading:
        assert reading.blocks() == []
        store.write(lambda writing: writing.block_add(a_block()))
        assert reading.blocks() == []
    assert store.read(lambda reading: reading.blocks()) == [a_block()]


def test_blocks_count_as_changes_for_the_mirror_and_exemptions_do_not(store: Store) -> None:
    store.write(lambda writing: writing.exemption_add(an_exemption()))
    assert store.change() == 0
    store.write(lambda writing: [writing.block_add(a_block(name)) for name in ("k-1", "k-2")])
    assert store.change() == 2
    store.write(lambda writing: writing.exemption_remove("e-1"))
    store.write(lambda writing: writing.block_remove("k-1"))
    assert store.change() == 3


@pytest.mark.parametrize("name", ["k-2", "", "K-1", "k-1 ", "%", "k-1\0"])
def test_removing_an_unknown_entry_is_not_a_change(store: Store, name: str) -> None:
    store.write(lambda writing: (writing.block_add(a_block()), writing.exemption_add(an_exemption("k-1"))))
    change = store.change()
    assert store.write(lambda writing: writing.block_remove(name)) is None
    assert store.write(lambda writing: writing.exemption_remove(name)) is None
    with store.reading() as reading:
        assert (len(reading.blocks()), len(reading.exemptions(None, None))) == (1, 1)
    assert store.change() == change


def test_only_the_named_entry_is_removed(store: Store) -> None:
    names = ("x-1", "x-2", "x-3")
    store.write(lambda writing: [writing.block_add(a_block(name)) for name in names])
    store.write(lambda writing: [writing.exemption_add(an_exemption(name)) for name in names])
    assert store.write(lambda writing: writing.block_remove("x-2")) == a_block("x-2")
    assert store.write(lambda writing: writing.exemption_remove("x-1")) == an_exemption("x-1")
    with store.reading() as reading:
        assert [each.id for each in reading.blocks()] == ["x-1", "x-3"]
        assert [each.id for each in reading.exemptions(None, None)] == ["x-2", "x-3"]


@pytest.mark.parametrize(
    "wrong",
    [a_block(), a_block("k-2", count=-1), a_block("k-2", start=day(3)), a_block("k-2", start=day(4))],
    ids=["a second of the id", "fewer than none", "empty", "backwards"],
)
def test_an_impossible_block_changes_neither_the_others_nor_the_number_of_changes(
    store: Store, wrong: Block
) -> None:
    store.write(lambda writing: writing.block_add(a_block()))
    with pytest.raises(StoreError, match="cannot be used"):
        store.write(lambda writing: writing.block_add(wrong))
    assert (store.read(lambda reading: reading.blocks()), store.change()) == ([a_block()], 1)


@pytest.mark.parametrize(
    "wrong",
    [an_exemption(), an_exemption("e-2", reason=""), an_exemption("e-2", start=day(3))],
    ids=["a second of the id", "without a reason", "empty"],
)
def test_an_impossible_exemption_does_not_change_the_others(store: Store, wrong: Exemption) -> None:
    store.write(lambda writing: writing.exemption_add(an_exemption()))
    with pytest.raises(StoreError, match="cannot be used"):
        store.write(lambda writing: writing.exemption_add(wrong))
    assert store.read(lambda reading: reading.exemptions(None, None)) == [an_exemption()]
