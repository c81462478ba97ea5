"""MIG devices in the inventory: small, and read back as they were."""

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.inventory import (
    Device,
    InventoryError,
    decode_inventory,
    encode_inventory,
    mig_model,
    resource_of,
)

MODEL = "NVIDIA-A100-SXM4-80GB"
LIMIT = 32 * 1024
"""Bytes: what the Node may be burdened with."""
REASON = (
    "nvmlDeviceGetMemoryInfo answers Insufficient Permissions (NVML error 4), asked for 3 times in a row."
)


def uuid(prefix: str, number: int) -> str:
    return f"{prefix}-{number:08d}-89ab-cdef-0123-456789abcdef"


@dataclass(frozen=True)
class Big:
    """A node of sixteen GPUs that are cut into seven each, or not at all."""

    reason: str | None = None
    resource: str | None = None
    parts: int = 7
    links: bool = False

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(device for index in range(16) for device in self._gpu(index))

    def _gpu(self, index: int) -> list[Device]:
        health = {"health": "unhealthy", "reason": self.reason} if self.reason else {}
        peers = {uuid("GPU", other): 18 for other in range(16) if other != index} if self.links else None
        whole = Device(
            uuid=uuid("GPU", index),
            index=index,
            model=MODEL,
            memory=81920,
            numa=index // 8,
            links=peers,
            **health,
        )
        return [whole, *(self._part(whole, number) for number in range(self.parts))]

    def _part(self, whole: Device, number: int) -> Device:
        return msgspec.structs.replace(
            whole,
            uuid=uuid("MIG", whole.index * 100 + number),
            model=mig_model(MODEL, "1g.10gb+me"),
            memory=9728,
            links=None,
            parent=whole.uuid,
            profile="1g.10gb+me",
            resource=self.resource,
        )


@pytest.mark.parametrize(
    "node",
    [
        Big(),
        Big(reason=REASON),
        Big(reason=REASON, resource=names.GPU_RESOURCE),
        Big(parts=0, links=True, reason=REASON),
    ],
    ids=["healthy", "all unhealthy", "all unhealthy, as GPUs", "whole, every one linked with every other"],
)
def test_sixteen_gpus_of_seven_mig_devices_each_stay_under_the_limit(node: Big) -> None:
    text = encode_inventory(node.devices)
    assert len(text.encode()) < LIMIT
    assert decode_inventory(text) == node.devices


def test_faults_of_every_single_mig_device_stay_under_the_limit() -> None:
    devices = tuple(
        msgspec.structs.replace(
            device, health="unhealthy", reason="XID 94: memory error contained to one program"
        )
        if device.parent
        else device
        for device in Big().devices
    )
    text = encode_inventory(devices)
    assert len(text.encode()) < LIMIT
    assert decode_inventory(text) == devices


def test_values_that_follow_from_the_gpu_are_not_written() -> None:
    whole, part = Big(parts=1).devices[:2]
    entry = msgspec.json.decode(encode_inventory((whole, part)))["devices"][1]
    assert entry.keys() == {"uuid", "memory", "parent", "profile"}


def test_a_mig_device_of_an_unhealthy_gpu_is_unhealthy_whatever_its_own_entry() -> None:
    whole, part = Big(parts=1, reason="XID 79").devices[:2]
    well = msgspec.structs.replace(part, health="healthy", reason=None)
    assert decode_inventory(encode_inventory((whole, well))) == (whole, part)


def test_a_mig_device_whose_gpu_is_missing_is_written_with_all_its_values() -> None:
    _, part = Big(parts=1).devices[:2]
    assert decode_inventory(encode_inventory((part,))) == (part,)


@pytest.mark.parametrize(
    "text", ['{"devices": [{"uuid": "A"}]}', '{"devices": [{"uuid": "A", "parent": "B"}]}']
)
def test_a_device_without_a_model_is_an_error(text: str) -> None:
    with pytest.raises(InventoryError, match="says no model of A"):
        decode_inventory(text)


@given(
    st.sampled_from([None, "XID 79"]),
    st.sampled_from(["XID 79", "XID 48", None]),
    st.sampled_from([0, 1, None]),
    st.sampled_from([3, -1]),
)
def test_mig_devices_are_read_back_as_they_were(
    whole_reason: str | None, reason: str | None, numa: int | None, index: int
) -> None:
    def health(why: str | None) -> dict[str, str | None]:
        return {"health": "unhealthy" if why else "healthy", "reason": why}

    whole = Device(uuid="GPU-0", index=index, model="M", numa=numa, **health(whole_reason))
    part = Device(
        uuid="MIG-0", index=index, model="M-MIG-1g", numa=numa, parent="GPU-0", profile="1g", **health(reason)
    )
    expected = part if reason or not whole_reason else msgspec.structs.replace(part, **health(whole_reason))
    assert decode_inventory(encode_inventory((whole, part))) == (whole, expected)


def test_the_resource_of_a_mig_device_is_that_of_its_profile_unless_it_names_another() -> None:
    part = Device(uuid="MIG-0", model="M", parent="GPU-0", profile="1g.10gb+me")
    assert resource_of(part) == "nvidia.com/mig-1g.10gb.me"
    assert resource_of(msgspec.structs.replace(part, resource=names.GPU_RESOURCE)) == names.GPU_RESOURCE
