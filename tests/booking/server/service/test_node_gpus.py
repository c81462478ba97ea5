"""Orders about single GPUs: on exactly the named GPU, next to other orders, and audited."""

import pytest

from booking.policy.limits import Limits
from booking.server.errors import ClusterError, NotAllowedError, RefusedError, UnknownGpuError
from booking.server.service import BookingService
from booking.server.service.device_orders import NodeGpus, ordered, uuid_of
from booking.server.store import Store
from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import NODES
from cluster.objects.device_orders import DeviceOrder, device_orders_of
from cluster.objects.inventory import Device, encode_inventory
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER

ROOT = an_administrator()
DEVICES = (
    Device(uuid="GPU-a", index=0, model="NVIDIA-A100"),
    Device(uuid="MIG-b", index=0, model="NVIDIA-A100-MIG-3g.40gb", parent="GPU-a", profile="3g.40gb"),
    Device(uuid="GPU-c", index=1, model="NVIDIA-A100"),
)


@pytest.fixture
def kube(clock: FakeClock) -> FakeKube:
    fake = FakeKube(clock)
    inventory = {names.INVENTORY: encode_inventory(DEVICES), "other": "stays"}
    fake.create(NODES, {"metadata": {"name": "node-a", "annotations": inventory}})
    return fake


@pytest.fixture
def service(store: Store, clock: FakeClock, kube: FakeKube) -> BookingService:
    return BookingService(store, clock, Limits(), lambda: CLUSTER, gpus=NodeGpus(kube))


def on_the_node(kube: FakeKube) -> dict[str, DeviceOrder]:
    node = kube.get(NODES, "node-a")
    assert node.metadata.annotation("other") == "stays"
    return device_orders_of(node)


def test_an_order_is_written_on_the_node_and_in_the_audit(service: BookingService, kube: FakeKube) -> None:
    assert service.order_gpu(ROOT, "node-a", "1", order="cordon", reason=" the fan is loud ") == "GPU-c"
    assert on_the_node(kube) == {"GPU-c": DeviceOrder(cordoned="root: the fan is loud")}
    assert [(e.action, e.subject, e.reason) for e in service.audit(ROOT).entries] == [
        ("gpu.cordon", "node-a/1", "the fan is loud")
    ]


def test_orders_about_several_gpus_are_kept_next_to_each_other(
    service: BookingService, kube: FakeKube
) -> None:
    service.order_gpu(ROOT, "node-a", "0", order="cordon", reason="x")
    service.order_gpu(ROOT, "node-a", "MIG-b", order="clear", reason="y")
    service.order_gpu(ROOT, "node-a", "GPU-c", order="cordon", reason="z")
    service.order_gpu(ROOT, "node-a", "GPU-a", order="uncordon", reason="x")
    expected = {"MIG-b": DeviceOrder(cleared=START), "GPU-c": DeviceOrder(cordoned="root: z")}
    assert on_the_node(kube) == expected


def test_withdrawing_the_last_order_removes_the_annotation(service: BookingService, kube: FakeKube) -> None:
    service.order_gpu(ROOT, "node-a", "0", order="cordon", reason="x")
    service.order_gpu(ROOT, "node-a", "0", order="uncordon", reason="x")
    assert kube.get(NODES, "node-a").metadata.annotation(names.DEVICE_ORDERS) is None


def test_a_cordon_and_a_clearing_do_not_undo_each_other() -> None:
    cordoned = ordered(DeviceOrder(), "cordon", message="a: x", at=START)
    both = ordered(cordoned, "clear", message="a: y", at=START)
    assert both == DeviceOrder(cordoned="a: x", cleared=START)
    assert ordered(both, "uncordon", message="a: z", at=START) == DeviceOrder(cleared=START)


@pytest.mark.parametrize(
    ("gpu", "uuid"), [("0", "GPU-a"), ("MIG-b", "MIG-b"), ("GPU-c", "GPU-c"), ("2", None)]
)
def test_a_number_means_a_whole_gpu(gpu: str, uuid: str | None) -> None:
    assert uuid_of(DEVICES, gpu) == uuid


@pytest.mark.parametrize("place", [("node-a", "2"), ("node-z", "0"), ("../nodes", "0"), ("node-a", "a/b")])
def test_an_unknown_node_or_gpu_is_reported(
    service: BookingService, kube: FakeKube, place: tuple[str, str]
) -> None:
    with pytest.raises(UnknownGpuError):
        service.order_gpu(ROOT, *place, order="cordon", reason="x")
    assert on_the_node(kube) == {}


def test_only_administrators_order_and_only_with_a_reason(service: BookingService, kube: FakeKube) -> None:
    with pytest.raises(NotAllowedError):
        service.order_gpu(somebody("alice"), "node-a", "0", order="cordon", reason="x")
    with pytest.raises(RefusedError):
        service.order_gpu(ROOT, "node-a", "0", order="cordon", reason="  ")
    assert on_the_node(kube) == {}


def test_an_order_written_at_the_same_time_is_not_lost(service: BookingService, kube: FakeKube) -> None:
    kube.before("PATCH", lambda: NodeGpus(kube).order("node-a", "1", "cordon", message="bob: z", at=START))
    service.order_gpu(ROOT, "node-a", "0", order="cordon", reason="x")
    assert set(on_the_node(kube)) == {"GPU-a", "GPU-c"}


def test_an_unreachable_api_server_is_reported_and_audited(service: BookingService, kube: FakeKube) -> None:
    kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "connection refused"))
    with pytest.raises(ClusterError, match="give it again"):
        service.order_gpu(ROOT, "node-a", "0", order="cordon", reason="x")
    assert [e.action for e in service.audit(ROOT).entries] == ["gpu.cordon-failed", "gpu.cordon"]
