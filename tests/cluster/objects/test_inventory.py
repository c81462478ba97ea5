"""The inventory of a node: what is written, what is read back, and the resource of each device."""

from typing import Any

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
    inventory_of,
    mig_model,
    possible_resources,
    resource_of,
)
from tests.fakes.objects import A100, a100, a_node

WHOLE = a100(0)
PART = Device(uuid="MIG-0", index=0, model=f"{A100}-MIG-1g.10gb", parent="GPU-n0-0", profile="1g.10gb")


def written(*devices: dict[str, Any]) -> str:
    return msgspec.json.encode({"devices": devices}).decode()


def entries(*devices: Device) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(encode_inventory(devices))["devices"]
    return found


class TestWriting:
    def test_default_values_are_not_written(self) -> None:
        assert entries(Device(uuid="GPU-0", index=0, model="M")) == [
            {"uuid": "GPU-0", "index": 0, "model": "M"}
        ]

    def test_an_unhealthy_device_is_written_with_its_reason(self) -> None:
        (device,) = entries(Device(uuid="GPU-0", model="M", health="unhealthy", reason="XID 79"))
        assert (device["health"], device["reason"]) == ("unhealthy", "XID 79")

    def test_the_order_of_devices_is_kept(self) -> None:
        devices = (a100(3), a100(0), PART, a100(1))
        assert [device.uuid for device in decode_inventory(encode_inventory(devices))] == [
            "GPU-n0-3",
            "GPU-n0-0",
            "MIG-0",
            "GPU-n0-1",
        ]

    def test_a_mig_device_may_come_before_its_gpu(self) -> None:
        assert decode_inventory(encode_inventory((PART, WHOLE))) == (PART, WHOLE)

    @pytest.mark.parametrize(
        ("changes", "key"),
        [
            pytest.param({"index": 5}, "index", id="another number"),
            pytest.param({"model": "M"}, "model", id="another model"),
            pytest.param({"numa": 1}, "numa", id="another NUMA node"),
            pytest.param({"health": "unhealthy"}, "health", id="another health"),
            pytest.param({"resource": names.GPU_RESOURCE}, "resource", id="a resource of its own"),
        ],
    )
    def test_a_mig_device_is_written_with_its_differences_from_its_gpu(
        self, changes: dict[str, Any], key: str
    ) -> None:
        part = msgspec.structs.replace(PART, **changes)
        assert entries(WHOLE, part)[1].keys() == {"uuid", "parent", "profile", key}
        assert decode_inventory(encode_inventory((WHOLE, part))) == (WHOLE, part)

    def test_a_mig_device_of_an_unhealthy_gpu_is_written_with_its_own_reason(self) -> None:
        whole = msgspec.structs.replace(WHOLE, health="unhealthy", reason="XID 79")
        same = msgspec.structs.replace(PART, uuid="MIG-1", health="unhealthy", reason="XID 79")
        other = msgspec.structs.replace(PART, health="unhealthy", reason="XID 94")
        assert [device.get("reason") for device in entries(whole, same, other)] == ["XID 79", None, "XID 94"]
        assert decode_inventory(encode_inventory((whole, same, other))) == (whole, same, other)


class TestReading:
    def test_a_mig_device_inherits_missing_values_from_its_gpu(self) -> None:
        whole = {"uuid": "GPU-0", "index": 3, "model": "M", "numa": 1, "memory": 81920}
        _, part = decode_inventory(written(whole, {"uuid": "MIG-0", "parent": "GPU-0", "profile": "1g"}))
        assert (part.index, part.model, part.numa, part.memory) == (3, "M-MIG-1g", 1, 0)

    def test_a_mig_device_without_a_profile_has_its_gpu_s_model(self) -> None:
        _, part = decode_inventory(written({"uuid": "GPU-0", "model": "M"}, {"uuid": "x", "parent": "GPU-0"}))
        assert part.model == "M"

    def test_a_mig_device_keeps_its_own_reason_on_an_unhealthy_gpu(self) -> None:
        whole = {"uuid": "GPU-0", "model": "M", "health": "unhealthy", "reason": "XID 79"}
        own = {"uuid": "MIG-0", "parent": "GPU-0", "health": "unhealthy", "reason": "XID 94"}
        assert [device.reason for device in decode_inventory(written(whole, own))] == ["XID 79", "XID 94"]

    def test_a_healthy_gpu_does_not_make_its_mig_devices_healthy(self) -> None:
        own = {"uuid": "MIG-0", "parent": "GPU-0", "health": "unhealthy"}
        whole, part = decode_inventory(written({"uuid": "GPU-0", "model": "M"}, own))
        assert (whole.is_healthy, part.is_healthy) == (True, False)

    @pytest.mark.parametrize("text", ["", None])
    def test_a_node_whose_agent_has_published_nothing_has_no_inventory(self, text: str | None) -> None:
        node = a_node("n0")
        annotations = {} if text is None else {names.INVENTORY: text}
        meta = msgspec.structs.replace(node.metadata, annotations=annotations)
        assert inventory_of(msgspec.structs.replace(node, metadata=meta)) == ()

    def test_an_inventory_without_devices_is_an_inventory(self) -> None:
        assert decode_inventory("{}") == decode_inventory(encode_inventory(())) == ()

    @pytest.mark.parametrize(
        "device",
        [
            pytest.param({"index": 0, "model": "M"}, id="without a UUID"),
            pytest.param({"uuid": None, "model": "M"}, id="a null UUID"),
            pytest.param({"uuid": "A"}, id="without a model"),
            pytest.param({"uuid": "A", "model": ""}, id="with an empty model"),
            pytest.param({"uuid": "A", "parent": "B", "profile": "1g"}, id="of a GPU that is not there"),
            pytest.param({"uuid": "A", "model": "M", "memory": "80Gi"}, id="memory as a text"),
            pytest.param({"uuid": "A", "model": "M", "index": None}, id="a null number"),
            pytest.param({"uuid": "A", "model": "M", "links": {"B": "12"}}, id="links as texts"),
            pytest.param({"uuid": "A", "model": "M", "health": "Healthy"}, id="health in another spelling"),
        ],
    )
    def test_one_unreadable_device_makes_the_inventory_unreadable(self, device: dict[str, Any]) -> None:
        with pytest.raises(InventoryError, match=names.INVENTORY):
            decode_inventory(written({"uuid": "GPU-0", "model": "M"}, device))


HEALTH = st.sampled_from([("healthy", None), ("unhealthy", "XID 79"), ("unhealthy", "XID 94")])
NUMA = st.sampled_from([None, 0, 1])


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Device, ...]:
    """GPUs with any values, some of them cut."""
    devices: list[Device] = []
    for index in range(draw(st.integers(1, 3))):
        health, reason = draw(HEALTH)
        devices.append(
            msgspec.convert(
                {"uuid": f"GPU-{index}", "index": index, "model": "M", "health": health, "reason": reason}
                | {"numa": draw(NUMA)},
                Device,
            )
        )
    for number in range(draw(st.integers(0, 4))):
        health, reason = draw(HEALTH)
        profile = draw(st.sampled_from([None, "1g", "2g+me"]))
        parent = f"GPU-{draw(st.integers(0, len(devices)))}"
        drawn = {"index": draw(st.integers(-1, 2)), "model": draw(st.sampled_from(["M", "M-MIG-1g", "N"]))}
        own = {"numa": draw(NUMA), "health": health, "reason": reason, "parent": parent, "profile": profile}
        devices.append(msgspec.convert({"uuid": f"MIG-{number}", **drawn, **own}, Device))
    return tuple(draw(st.permutations(devices)))


@given(nodes())
def test_a_mig_device_is_read_back_with_missing_values_taken_from_its_gpu(
    devices: tuple[Device, ...],
) -> None:
    gpus = {device.uuid: device for device in devices}
    for device, found in zip(devices, decode_inventory(encode_inventory(devices)), strict=True):
        whole = gpus.get(device.parent or "")
        if whole is None:
            assert found == device
            continue
        kept = ("uuid", "model", "memory", "links", "parent", "profile", "resource")
        assert all(getattr(found, key) == getattr(device, key) for key in kept)
        assert found.index == (whole.index if device.index == -1 else device.index)
        assert found.numa == (whole.numa if device.numa is None else device.numa)
        expected = whole if device.is_healthy else device
        assert (found.health, found.reason) == (expected.health, expected.reason)


@given(nodes())
def test_an_inventory_that_was_read_is_written_unchanged(devices: tuple[Device, ...]) -> None:
    text = encode_inventory(decode_inventory(encode_inventory(devices)))
    assert encode_inventory(decode_inventory(text)) == text


PROFILES = [
    pytest.param(None, None, (names.GPU_RESOURCE,), id="a whole GPU"),
    pytest.param("1g.5gb", None, ("nvidia.com/mig-1g.5gb", names.GPU_RESOURCE), id="a MIG device"),
    pytest.param(
        "1g.5gb+me", None, ("nvidia.com/mig-1g.5gb.me", names.GPU_RESOURCE), id="with media engines"
    ),
    pytest.param(
        "1g.5gb", names.GPU_RESOURCE, ("nvidia.com/mig-1g.5gb", names.GPU_RESOURCE), id="asked for as a GPU"
    ),
]


@pytest.mark.parametrize(("profile", "resource", "resource_names"), PROFILES)
def test_a_device_may_have_been_given_under_the_resource_name_of_any_strategy(
    profile: str | None, resource: str | None, resource_names: tuple[str, ...]
) -> None:
    device = Device(uuid="A", model="M", profile=profile, resource=resource)
    assert possible_resources(device) == resource_names
    assert resource_of(device) == (resource or resource_names[0])
    assert resource_of(device) in possible_resources(device)
    assert all(map(names.is_gpu_resource, resource_names))


def test_the_model_of_a_mig_device_contains_its_gpu_s_model_and_its_profile() -> None:
    assert mig_model(A100, "1g.10gb+me") == "NVIDIA-A100-SXM4-80GB-MIG-1g.10gbme"


def test_an_earlier_agents_inventory_has_models_that_a_manifest_can_ask_for() -> None:
    text = encode_inventory((Device(uuid="GPU-0", model="Quadro-RTX-6000/8000-[TU102]"),))
    assert [device.model for device in decode_inventory(text)] == ["Quadro-RTX-60008000-TU102"]
