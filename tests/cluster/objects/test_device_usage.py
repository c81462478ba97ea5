"""How GPUs are used, as it is written on a Lease and read back."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.device_usage import DeviceUsage, NodeUsage, Squatter, UseError, decode_use, encode_use

AT = datetime(2026, 11, 27, 16, tzinfo=UTC)


def test_device_usage_is_read_back_as_it_was_written() -> None:
    use = NodeUsage(
        at=AT,
        devices=(
            DeviceUsage(uuid="GPU-1", utilisation=0, memory=0, temperature=30, power=70, pods={"a": 1}),
        ),
        squatters=(Squatter(device="GPU-1", pid=7, command="python3", uid="b"),),
        more=3,
    )
    assert decode_use(encode_use(use)) == use


def test_zero_usage_differs_from_unknown_usage() -> None:
    text = encode_use(
        NodeUsage(at=AT, devices=(DeviceUsage(uuid="GPU-1", utilisation=0), DeviceUsage(uuid="GPU-2")))
    )
    idle, unknown = decode_use(text).devices
    assert (idle.utilisation, unknown.utilisation) == (0, None)


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "{}", '{"at": "noon"}', '{"version": 2, "at": "2026-11-27T16:00:00Z"}']
)
def test_unreadable_usage_is_an_error_with_a_message(text: str) -> None:
    with pytest.raises(UseError, match=names.USE):
        decode_use(text)


def test_unknown_values_are_not_written() -> None:
    use = NodeUsage(at=AT, devices=(DeviceUsage(uuid="GPU-1", power=0),))
    assert encode_use(use) == '{"at":"2026-11-27T16:00:00Z","devices":[{"uuid":"GPU-1","power":0}]}'


def test_the_documented_form_is_read() -> None:
    text = """{"at": "2026-11-27T16:00:00Z",
     "devices": [{"uuid": "GPU-1", "utilisation": 87, "memory": 40213, "temperature": 61, "power": 288,
                  "pods": {"uid-a": 40100}}],
     "squatters": [{"device": "GPU-1", "pid": 4711, "command": "python3", "memory": 2048}]}"""
    found = decode_use(text)
    (device,), (squatter,) = found.devices, found.squatters
    assert (found.at, found.more) == (AT, 0)
    assert (device.utilisation, device.memory, device.temperature, device.power) == (87, 40213, 61, 288)
    assert device.pods == {"uid-a": 40100}
    assert (squatter.device, squatter.pid, squatter.command, squatter.memory) == (
        "GPU-1",
        4711,
        "python3",
        2048,
    )
    assert (squatter.uid, squatter.namespace, squatter.name, squatter.user) == (None, None, None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"devices": [{"utilisation": 1}]},
        {"devices": [{"uuid": "GPU-1", "memory": "1Gi"}]},
        {"devices": [{"uuid": "GPU-1", "pods": {"a": None}}]},
        {"squatters": [{"device": "GPU-1"}]},
        {"squatters": [{"pid": 1}]},
        {"more": None},
        {"at": None},
    ],
    ids=[
        "no UUID",
        "memory as a text",
        "a pod without memory",
        "no process",
        "no device",
        "null",
        "no instant",
    ],
)
def test_one_entry_of_another_shape_makes_the_whole_unreadable(wrong: dict[str, object]) -> None:
    with pytest.raises(UseError, match=names.USE):
        decode_use(msgspec.json.encode({"at": AT, **wrong}).decode())


AMOUNTS = st.none() | st.integers(0, 10**6)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DEVICES = st.builds(
    DeviceUsage,
    uuid=WORDS,
    utilisation=AMOUNTS,
    memory=AMOUNTS,
    temperature=AMOUNTS,
    power=AMOUNTS,
    pods=st.none() | st.dictionaries(WORDS, st.integers(0, 10**6), max_size=2),
)
SQUATTERS = st.builds(
    Squatter, device=WORDS, pid=st.integers(0, 2**22), command=WORDS, memory=AMOUNTS, user=st.none() | WORDS
)


@given(
    st.lists(DEVICES, max_size=3).map(tuple), st.lists(SQUATTERS, max_size=2).map(tuple), st.integers(0, 99)
)
def test_any_usage_is_read_back(
    devices: tuple[DeviceUsage, ...], squatters: tuple[Squatter, ...], more: int
) -> None:
    use = NodeUsage(at=AT, devices=devices, squatters=squatters, more=more)
    assert decode_use(encode_use(use)) == use
