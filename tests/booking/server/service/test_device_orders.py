"""Orders about single GPUs: what one leaves of earlier ones, which GPU is meant, and the errors."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.errors import ClusterError, UnknownGpuError
from booking.server.service.context import GpuOrder
from booking.server.service.device_orders import NodeGpus, ordered, uuid_of
from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    Request,
    ServerError,
    Unreachable,
    refusal_of,
)
from cluster.kube.resources import NODES
from cluster.objects.device_orders import DeviceOrder, device_orders_of
from cluster.objects.inventory import Device, encode_inventory

MODEL: Final = "NVIDIA-A100"
DEVICES: Final = (
    Device(uuid="GPU-a", index=0, model=MODEL),
    Device(uuid="MIG-b", index=0, model=MODEL, parent="GPU-a", profile="3g.40gb"),
    Device(uuid="GPU-c", index=1, model=MODEL),
)
REQUEST: Final = Request("PATCH", "/api/v1/nodes/n0")

# --- what an order leaves of earlier orders ----------------------------------------------------------

INSTANTS = st.integers(0, 10**9).map(lambda second: START + timedelta(seconds=second))
BEFORE = st.builds(DeviceOrder, cordoned=st.none() | st.text(), cleared=st.none() | INSTANTS)
ORDERS = st.sampled_from(("cordon", "uncordon", "clear"))


@given(BEFORE, st.lists(st.tuples(ORDERS, st.text(), INSTANTS), max_size=6))
def test_the_last_order_about_the_use_of_a_gpu_and_the_last_clearing_count(
    before: DeviceOrder, given_orders: list[tuple[GpuOrder, str, datetime]]
) -> None:
    after = before
    for order, message, at in given_orders:
        after = ordered(after, order, message=message, at=at)
    about_use = [
        message if order == "cordon" else None for order, message, _ in given_orders if order != "clear"
    ]
    clearings = [at for order, _, at in given_orders if order == "clear"]
    assert after == DeviceOrder(
        cordoned=[before.cordoned, *about_use][-1], cleared=[before.cleared, *clearings][-1]
    )


# --- which GPU is meant ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "uuid"),
    [
        ("0", "GPU-a"),
        ("1", "GPU-c"),
        ("GPU-a", "GPU-a"),
        ("MIG-b", "MIG-b"),
        ("2", None),
        ("00", None),
        ("", None),
        ("gpu-a", None),
        ("GPU-", None),
        ("-1", None),
    ],
)
@pytest.mark.parametrize("devices", [DEVICES, DEVICES[::-1]], ids=["in order", "backwards"])
def test_a_number_is_a_whole_gpu_and_any_device_has_a_uuid(
    devices: tuple[Device, ...], gpu: str, uuid: str | None
) -> None:
    assert uuid_of(devices, gpu) == uuid


# --- what is written ---------------------------------------------------------------------------------


@pytest.fixture
def kube() -> FakeKube:
    fake = FakeKube(FakeClock())
    annotations = {names.INVENTORY: encode_inventory(DEVICES), "other": "stays"}
    fake.create(NODES, {"metadata": {"name": "n0", "annotations": annotations}})
    return fake


@pytest.fixture
def gpus(kube: FakeKube) -> NodeGpus:
    return NodeGpus(kube)


def give(gpus: NodeGpus, gpu: str = "0", order: GpuOrder = "cordon", **more: Any) -> str:
    at = START + timedelta(milliseconds=900)
    return gpus.order("n0", gpu, order, **{"message": "root: loud", "at": at, **more})


def on_the_node(kube: FakeKube) -> dict[str, DeviceOrder]:
    return device_orders_of(kube.get(NODES, "n0"))


CORDONED = DeviceOrder(cordoned="root: loud")


def test_orders_about_several_gpus_are_kept_beside_each_other(kube: FakeKube, gpus: NodeGpus) -> None:
    assert [give(gpus), give(gpus, "1", "clear"), give(gpus, "MIG-b")] == ["GPU-a", "GPU-c", "MIG-b"]
    assert on_the_node(kube) == {
        "GPU-a": CORDONED,
        "GPU-c": DeviceOrder(cleared=START),
        "MIG-b": CORDONED,
    }
    assert kube.get(NODES, "n0").metadata.annotation("other") == "stays"


def test_the_patch_has_the_resource_version_of_the_node_that_was_read(kube: FakeKube, gpus: NodeGpus) -> None:
    read = kube.get(NODES, "n0").metadata.resource_version
    give(gpus)
    sent = kube.calls[-1].body
    assert isinstance(sent, dict)
    assert set(sent) == {"metadata"}
    assert sent["metadata"]["resourceVersion"] == read
    assert set(sent["metadata"]["annotations"]) == {names.DEVICE_ORDERS}


@pytest.mark.parametrize("order", ["cordon", "uncordon", "clear"])
def test_a_dry_run_asks_the_api_server_and_leaves_the_node_as_it_is(
    kube: FakeKube, gpus: NodeGpus, order: GpuOrder
) -> None:
    give(gpus, "1")
    before = kube.get(NODES, "n0")
    assert give(gpus, "0", order, dry_run=True) == "GPU-a"
    assert kube.calls[-1].path == f"{REQUEST.path}?dryRun=All"
    assert kube.get(NODES, "n0") == before


def test_orders_about_missing_gpus_are_kept_in_case_they_come_back(kube: FakeKube, gpus: NodeGpus) -> None:
    give(gpus, "1")
    inventory = {names.INVENTORY: encode_inventory(DEVICES[:2])}
    kube.patch(NODES, "n0", {"metadata": {"annotations": inventory}})
    give(gpus)
    assert on_the_node(kube) == {"GPU-a": CORDONED, "GPU-c": CORDONED}
    with pytest.raises(UnknownGpuError):
        give(gpus, "1", "uncordon")


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inventory", "gpu", "message"),
    [
        (encode_inventory(DEVICES), "7", "n0 has no GPU 7; it has 0 (GPU-a), 1 (GPU-c)."),
        (encode_inventory(DEVICES[2:]), "0", "n0 has no GPU 0; it has 1 (GPU-c)."),
        (None, "0", "n0 has no GPU 0; it has none."),
    ],
    ids=["another number", "not that one", "nothing published"],
)
def test_an_unknown_gpu_is_refused_with_the_known_ones(
    kube: FakeKube, gpus: NodeGpus, inventory: str | None, gpu: str, message: str
) -> None:
    kube.patch(NODES, "n0", {"metadata": {"annotations": {names.INVENTORY: inventory}}})
    with pytest.raises(UnknownGpuError) as unknown:
        give(gpus, gpu)
    assert str(unknown.value) == message
    assert on_the_node(kube) == {}


def test_an_unknown_node_is_named_in_the_refusal(gpus: NodeGpus) -> None:
    with pytest.raises(UnknownGpuError) as unknown:
        gpus.order("n9", "0", "cordon", message="root: loud", at=START)
    assert str(unknown.value) == "There is no node n9."


def conflict() -> Conflict:
    return Conflict(REQUEST, refusal_of(409, b"{}"))


@pytest.mark.parametrize("rivals", [1, 4])
def test_a_node_that_others_write_on_is_read_again_and_their_orders_are_kept(
    kube: FakeKube, gpus: NodeGpus, rivals: int
) -> None:
    for _ in range(rivals):
        kube.fail("PATCH", conflict())
    kube.before("PATCH", lambda: NodeGpus(kube).order("n0", "1", "clear", message="bob: z", at=START))
    assert give(gpus) == "GPU-a"
    assert on_the_node(kube) == {"GPU-a": CORDONED, "GPU-c": DeviceOrder(cleared=START)}


def test_after_five_conflicts_the_order_is_given_up_with_a_message(kube: FakeKube, gpus: NodeGpus) -> None:
    for _ in range(5):
        kube.fail("PATCH", conflict())
    with pytest.raises(ClusterError) as error:
        give(gpus)
    assert str(error.value) == "The Node n0 is being changed all the time: give the order again."
    assert len([call for call in kube.calls if call.verb == "PATCH"]) == 5
    assert on_the_node(kube) == {}


AGAIN = (
    "The Kubernetes API server does not answer as it should: nothing is known of the order; give it again."
)
TROUBLE: dict[str, tuple[Callable[[], ApiError], type[Exception], str]] = {
    "gone": (
        lambda: NotFound(REQUEST, refusal_of(404, b"{}")),
        UnknownGpuError,
        "There is no node n0.",
    ),
    "forbidden": (
        lambda: Forbidden(REQUEST, refusal_of(403, b'{"message": "a policy says no"}')),
        ClusterError,
        "The booking server may not order that: a policy says no",
    ),
    "unreachable": (lambda: Unreachable(REQUEST, "connection refused"), ClusterError, AGAIN),
    "a server error": (lambda: ServerError(REQUEST, refusal_of(500, b"{}")), ClusterError, AGAIN),
}


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
@pytest.mark.parametrize("what", TROUBLE)
def test_each_failed_call_to_the_api_server_becomes_a_readable_message(
    kube: FakeKube, gpus: NodeGpus, what: str, verb: str
) -> None:
    error, kind, message = TROUBLE[what]
    kube.fail(verb, error())
    with pytest.raises(kind) as raised:
        give(gpus)
    assert str(raised.value) == message
    assert on_the_node(kube) == {}
