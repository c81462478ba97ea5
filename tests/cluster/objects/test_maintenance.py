"""Maintenance as it is written on a Node."""

from datetime import timedelta

import pytest

from cluster.fake.clock import START
from cluster.objects.maintenance import BlocksError, MaintenanceBlock, decode_blocks, encode_blocks

HOUR = timedelta(hours=1)


def test_blocks_are_read_back_as_written_and_their_order_does_not_matter() -> None:
    first = MaintenanceBlock(start=START, end=START + HOUR)
    second = MaintenanceBlock(start=START, end=START + 2 * HOUR, model="NVIDIA-A100", count=2)
    assert encode_blocks([second, first]) == encode_blocks([first, second])
    assert set(decode_blocks(encode_blocks([second, first]))) == {first, second}


def test_a_block_of_all_models_names_none() -> None:
    assert "model" not in encode_blocks([MaintenanceBlock(start=START, end=START + HOUR)])


@pytest.mark.parametrize("text", ["{", "[{}]", '[{"start": 1, "end": 2}]'])
def test_unreadable_blocks_are_an_error(text: str) -> None:
    with pytest.raises(BlocksError, match="cannot be read"):
        decode_blocks(text)
