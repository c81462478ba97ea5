"""Maintenance as it is written on a Node."""

from datetime import timedelta

import msgspec
import pytest

from cluster.fake.clock import START
from cluster.objects.maintenance import BlocksError, MaintenanceBlock, decode_blocks, encode_blocks

HOUR = timedelta(hours=1)
BLOCK = MaintenanceBlock(start=START, end=START + HOUR)
FIELDS = {"start": "2026-11-23T09:00:00Z", "end": "2026-11-23T10:00:00Z"}


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


def test_one_unreadable_block_makes_all_of_them_unreadable() -> None:
    """A node whose other blocks counted would be used while one of them runs."""
    with pytest.raises(BlocksError):
        decode_blocks(msgspec.json.encode([FIELDS, {**FIELDS, "end": None}]).decode())
