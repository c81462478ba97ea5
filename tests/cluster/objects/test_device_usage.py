"""How GPUs are used, as it is written on a Lease and read back."""

from datetime import UTC, datetime

import pytest

from cluster import names
from cluster.objects.device_usage import DeviceUsage, NodeUsage, Squatter, UseError, decode_use, encode_use

AT = datetime(2026, 11, 27, 16, tzinfo=UTC)


def test_it_is_read_back_as_it_was_written() -> None:
    use = NodeUsage(
        at=AT,
        devices=(
            DeviceUsage(uuid="GPU-1", utilisation=0, memory=0, temperature=30, power=70, pods={"a": 1}),
        ),
        squatters=(Squatter(device="GPU-1", pid=7, command="python3", uid="b"),),
        more=3,
    )
    assert decode_use(encode_use(use)) == use


def test_nothing_in_use_is_another_matter_than_nothing_known() -> None:
    text = encode_use(
        NodeUsage(at=AT, devices=(DeviceUsage(uuid="GPU-1", utilisation=0), DeviceUsage(uuid="GPU-2")))
    )
    idle, unknown = decode_use(text).devices
    assert (idle.utilisation, unknown.utilisation) == (0, None)


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"at": "noon"}', '{"version": 2, "at": "2026-11-27T16:00:00Z"}']
)
def test_what_cannot_be_read_is_an_error_with_a_message(text: str) -> None:
    with pytest.raises(UseError, match=names.USE):
        decode_use(text)
