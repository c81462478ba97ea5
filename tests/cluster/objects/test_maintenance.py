"""Maintenance as it is written on a Node."""

from datetime import timedelta
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.fake.clock import START
from cluster.objects.maintenance import BlocksError, MaintenanceBlock, decode_blocks, encode_blocks

HOUR = timedelta(hours=1)
BLOCK = MaintenanceBlock(start=START, end=START + HOUR)
FIELDS = {"start": "2026-11-23T09:00:00Z", "end": "2026-11-23T10:00:00Z"}


def test_blocks_are_read_back_as_written_and_their_order_does_not_matter() -> None:
    second = MaintenanceBlock(start=START, end=START + 2 * HOUR, model="NVIDIA-A100", count=2)
    assert encode_blocks([second, BLOCK]) == encode_blocks([BLOCK, second])
    assert set(decode_blocks(encode_blocks([second, BLOCK]))) == {BLOCK, second}


def test_a_block_of_all_models_and_devices_names_none() -> None:
    (entry,) = msgspec.json.decode(encode_blocks([BLOCK]))
    assert entry.keys() == {"start", "end"}


@pytest.mark.parametrize(
    ("more", "model", "count"),
    [
        pytest.param({}, None, None, id="all"),
        pytest.param({"model": None, "count": None}, None, None, id="nulls"),
        pytest.param({"model": "NVIDIA-A100"}, "NVIDIA-A100", None, id="all of a model"),
        pytest.param({"count": 2}, None, 2, id="some of any model"),
        pytest.param(
            {"model": "NVIDIA-A100", "count": 1, "new": [1]}, "NVIDIA-A100", 1, id="some of a model"
        ),
    ],
)
def test_a_missing_model_or_count_means_all(
    more: dict[str, object], model: str | None, count: int | None
) -> None:
    (block,) = decode_blocks(msgspec.json.encode([{**FIELDS, **more}]).decode())
    assert (block.model, block.count, block.end - block.start) == (model, count, HOUR)


def test_a_node_without_maintenance_has_an_empty_list() -> None:
    assert decode_blocks(encode_blocks([])) == decode_blocks("[]") == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "{}", "[{}]", "[null]", '[{"start": 1, "end": 2}]'),
        *(f'[{{"{key}": "2026-11-23T09:00:00Z"}}]' for key in FIELDS),
    ],
)
def test_unreadable_blocks_are_an_error(text: str) -> None:
    with pytest.raises(BlocksError, match=f"The annotation {names.BLOCKS} cannot be read"):
        decode_blocks(text)


def test_one_unreadable_block_makes_all_of_them_unreadable() -> None:
    """A node whose other blocks counted would be used while one of them runs."""
    with pytest.raises(BlocksError):
        decode_blocks(msgspec.json.encode([FIELDS, {**FIELDS, "end": None}]).decode())


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(MaintenanceBlock(start=START + HOUR / 4, end=START + HOUR / 2), id="start"),
        pytest.param(msgspec.structs.replace(BLOCK, end=START + 2 * HOUR), id="end"),
        pytest.param(msgspec.structs.replace(BLOCK, model="A"), id="model"),
        pytest.param(msgspec.structs.replace(BLOCK, count=1), id="count"),
    ],
)
def test_blocks_are_listed_by_start_end_model_and_count(later: MaintenanceBlock) -> None:
    assert decode_blocks(encode_blocks([later, BLOCK])) == (BLOCK, later)


MOMENTS = st.integers(0, 2).map(lambda hours: START + hours * HOUR)
BLOCKS = st.builds(
    MaintenanceBlock,
    start=MOMENTS,
    end=MOMENTS,
    model=st.sampled_from([None, "A", "B"]),
    count=st.sampled_from([None, 1, 2]),
)


@given(st.lists(BLOCKS, max_size=5), st.randoms())
def test_the_text_of_blocks_does_not_depend_on_their_order(
    blocks: list[MaintenanceBlock], random: Random
) -> None:
    assert encode_blocks(random.sample(blocks, len(blocks))) == encode_blocks(blocks)
