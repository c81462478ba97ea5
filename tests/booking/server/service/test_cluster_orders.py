"""Orders that others carry out: given once, to exactly the named object, by administrators alone."""

from collections.abc import Callable
from typing import Any

import pytest

from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.errors import ClusterError, KeyReusedError, NotAllowedError, RefusedError, UnknownError
from booking.server.service import BookingService, Key
from booking.server.service.device_orders import NodeGpus
from booking.server.service.evict_orders import PodOrders
from booking.server.store import Store
from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Conflict, Forbidden, Request, refusal_of
from cluster.kube.resources import NAMESPACES, NODES, PODS
from cluster.objects.device_orders import DeviceOrder, device_orders_of
from cluster.objects.evict_orders import order_of
from cluster.objects.inventory import Device, encode_inventory
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER

ALICE, ROOT = somebody("alice"), an_administrator()
KEY = Key.of("k-1", b"POST /orders")
GPU = "GPU-a"


def add_pod(kube: FakeKube, **metadata: Any) -> None:
    container = {"name": "main", "resources": {"limits": {names.GPU_RESOURCE: "1"}}}
    kube.create(
        PODS,
        {"metadata": {"name": "train", **metadata}, "spec": {"nodeName": "n0", "containers": [container]}},
        namespace="team",
    )


@pytest.fixture
def kube(clock: FakeClock) -> FakeKube:
    fake = FakeKube(clock)
    fake.create(NAMESPACES, {"metadata": {"name": "team"}})
    inventory = encode_inventory((Device(uuid=GPU, index=0, model="NVIDIA-A100"),))
    fake.create(NODES, {"metadata": {"name": "n0", "annotations": {names.INVENTORY: inventory}}})
    add_pod(fake)
    return fake


@pytest.fixture
def service(store: Store, clock: FakeClock, kube: FakeKube) -> BookingService:
    orders = PodOrders(kube, home=names.NAMESPACE)
    return BookingService(store, clock, Limits(), lambda: CLUSTER, evictions=orders, gpus=NodeGpus(kube))


def evict(service: BookingService, who: Principal = ROOT, reason: str = "r", key: Key | None = None) -> None:
    service.evict(who, "team", "train", reason, key=key)


def cordon(service: BookingService, who: Principal = ROOT, reason: str = "r", key: Key | None = None) -> str:
    return service.order_gpu(who, "n0", "0", order="cordon", reason=reason, key=key)


ORDERS: dict[str, Callable[..., object]] = {"evict": evict, "cordon": cordon}
EVERY_ORDER = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)


def writes(kube: FakeKube) -> int:
    return len([call for call in kube.calls if call.verb == "PATCH"])


@EVERY_ORDER
def test_a_repeated_order_is_answered_again_and_given_once(
    service: BookingService, kube: FakeKube, clock: FakeClock, order: Callable[..., object]
) -> None:
    first = order(service, key=KEY)
    clock.advance(60)
    assert order(service, key=KEY) == first
    assert writes(kube) == 1
    assert len(service.audit(ROOT).entries) == 1
    order(service)
    assert (writes(kube), len(service.audit(ROOT).entries)) == (2, 2)
    with pytest.raises(KeyReusedError):
        order(service, key=Key.of(KEY.text, b"something else"))
    assert writes(kube) == 2


def test_a_repeated_eviction_does_not_hit_a_new_pod_of_the_same_name(
    service: BookingService, kube: FakeKube
) -> None:
    evict(service, key=KEY)
    kube.delete(PODS, "train", namespace="team")
    kube.finish(PODS, "train", namespace="team")
    add_pod(kube)
    evict(service, key=KEY)
    assert order_of(kube.get(PODS, "train", namespace="team")) is None


@EVERY_ORDER
def test_a_former_administrator_gets_no_answer_by_an_old_key(
    service: BookingService, order: Callable[..., object]
) -> None:
    order(service, key=KEY)
    with pytest.raises(NotAllowedError):
        order(service, somebody("root"), key=KEY)


@EVERY_ORDER
def test_a_failed_order_is_given_again_when_it_is_repeated(
    service: BookingService, kube: FakeKube, order: Callable[..., object]
) -> None:
    kube.fail("PATCH", Forbidden(Request("PATCH", "/"), refusal_of(403, b'{"message": "a policy says no"}')))
    with pytest.raises(ClusterError, match="The booking server may not order that: "):
        order(service, key=KEY)
    order(service, key=KEY)
    failed, given = "pod.evict-failed gpu.cordon-failed", "pod.evict gpu.cordon"
    again, why, first = service.audit(ROOT).entries
    assert (again.action in given, why.action in failed, first.action in given) == (True, True, True)
    assert why.reason is not None
    assert "a policy says no" in why.reason


@EVERY_ORDER
def test_an_order_without_a_reason_is_neither_given_nor_audited(
    service: BookingService, kube: FakeKube, order: Callable[..., object]
) -> None:
    for reason in ("", "x" * 501, "a\x00b"):
        with pytest.raises(RefusedError):
            order(service, reason=reason)
    assert (writes(kube), service.audit(ROOT).entries) == (0, ())


@EVERY_ORDER
def test_a_server_without_a_cluster_takes_no_orders(
    store: Store, clock: FakeClock, order: Callable[..., object]
) -> None:
    service = BookingService(store, clock, Limits(), lambda: CLUSTER)
    with pytest.raises(ClusterError, match="cannot write to"):
        order(service)
    assert service.audit(ROOT).entries == ()


@pytest.mark.parametrize(
    ("node", "gpu"),
    [("", "0"), ("N0", "0"), ("n0/x", "0"), ("x" * 254, "0"), ("n0", ""), ("n0", "a b"), ("n0", "x" * 64)],
)
def test_impossible_names_of_nodes_and_gpus_cause_no_calls(
    service: BookingService, kube: FakeKube, node: str, gpu: str
) -> None:
    calls = len(kube.calls)
    with pytest.raises(UnknownError, match="There is no GPU"):
        service.order_gpu(ROOT, node, gpu, order="clear", reason="r")
    assert (len(kube.calls), service.audit(ROOT).entries) == (calls, ())


def test_an_order_is_given_up_after_five_conflicts_on_its_node(
    service: BookingService, kube: FakeKube
) -> None:
    for _ in range(5):
        kube.fail("PATCH", Conflict(Request("PATCH", "/"), refusal_of(409, b"{}")))
    with pytest.raises(ClusterError, match="is being changed all the time"):
        cordon(service)
    cordon(service)
    assert device_orders_of(kube.get(NODES, "n0")) == {GPU: DeviceOrder(cordoned="root: r")}


@pytest.mark.parametrize(
    ("inventory", "message"),
    [("{", "The GPUs of n0 are not known"), (None, "n0 has no GPU 0; it has none"), ("[]", "are not known")],
)
def test_no_order_is_given_on_a_node_with_unknown_gpus(
    service: BookingService, kube: FakeKube, inventory: str | None, message: str
) -> None:
    kube.patch(NODES, "n0", {"metadata": {"annotations": {names.INVENTORY: inventory}}})
    with pytest.raises(UnknownError, match=message):
        cordon(service)


def test_unreadable_orders_are_replaced(service: BookingService, kube: FakeKube) -> None:
    kube.patch(NODES, "n0", {"metadata": {"annotations": {names.DEVICE_ORDERS: "{"}}})
    service.order_gpu(ROOT, "n0", GPU, order="clear", reason="mended")
    assert device_orders_of(kube.get(NODES, "n0")) == {GPU: DeviceOrder(cleared=START)}


@pytest.mark.parametrize(
    ("metadata", "phase", "rule"),
    [
        ({}, "Succeeded", "gone-already"),
        ({}, "Failed", "gone-already"),
        ({"deletionTimestamp": "2026-03-02T08:59:00Z", "finalizers": ["x/y"]}, "Running", "gone-already"),
    ],
)
def test_a_pod_that_has_ended_or_is_terminating_gets_no_order(
    service: BookingService, kube: FakeKube, metadata: dict[str, Any], phase: str, rule: str
) -> None:
    pod = kube.raw(PODS, "train", namespace="team")
    kube.put(PODS, {**pod, "metadata": {**pod["metadata"], **metadata}, "status": {"phase": phase}})
    for ask in (evict, lambda service: service.dry_run_evict(ROOT, "team", "train", "r")):
        with pytest.raises(RefusedError) as refused:
            ask(service)
        assert [violation.rule for violation in refused.value.violations] == [rule]
