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


def test_what_means_all_is_not_said() -> None:
    assert "model" not in encode_blocks([MaintenanceBlock(start=START, end=START + HOUR)])


@pytest.mark.parametrize("text", ["{", "[{}]", '[{"start": 1, "end": 2}]'])
def test_what_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(BlocksError, match="cannot be read"):
        decode_blocks(text)
