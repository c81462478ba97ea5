"""An order on a pod: the exact patch, which pods it may not reach, and how the pod is described."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from booking.server.errors import ClusterError, RefusedError, UnknownPodError
from booking.server.service.context import PodToEvict
from booking.server.service.evict_orders import PodOrders
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
    TooManyRequests,
    Unauthorized,
    Unreachable,
    refusal_of,
)
from cluster.kube.resources import NAMESPACES, PODS
from cluster.objects.evict_orders import EvictOrder, order_of
from cluster.objects.jobs import Job

MIG = "nvidia.com/mig-1g.5gb"
REQUEST = Request("PATCH", "/api/v1/namespaces/team/pods/train")


@pytest.fixture
def kube() -> FakeKube:
    fake = FakeKube(FakeClock())
    for name in ("team", "default", "kube-system", names.NAMESPACE):
        fake.create(NAMESPACES, {"metadata": {"name": name}})
    return fake


@pytest.fixture
def orders(kube: FakeKube) -> PodOrders:
    return PodOrders(kube, home=names.NAMESPACE)


def container(name: str = "main", **gpus: int) -> dict[str, Any]:
    limits = {{"gpus": names.GPU_RESOURCE, "mig": MIG}[kind]: str(count) for kind, count in gpus.items()}
    return {"name": name, "resources": {"limits": limits}}


def a_pod(kube: FakeKube, *, namespace: str = "team", spec: Any = None, **metadata: Any) -> None:
    """``train`` on ``n0`` with a GPU."""
    body = {"nodeName": "n0", "containers": [container(gpus=1)], **(spec or {})}
    kube.create(PODS, {"metadata": {"name": "train", **metadata}, "spec": body}, namespace=namespace)


def order(orders: PodOrders, *, namespace: str = "team") -> None:
    orders.order(namespace, "train", by="root", reason="loud", at=START + timedelta(milliseconds=900))


def dry_run(orders: PodOrders, *, namespace: str = "team") -> PodToEvict:
    return orders.dry_run(namespace, "train", by="root", reason="loud", at=START)


EACH_WAY = pytest.mark.parametrize("ask", [order, dry_run])


def test_an_order_has_the_uid_of_the_pod_its_administrator_and_the_second(
    kube: FakeKube, orders: PodOrders
) -> None:
    a_pod(kube, annotations={"other": "stays"})
    before = kube.get(PODS, "train", namespace="team")
    order(orders)
    sent = kube.calls[-1]
    assert (sent.verb, sent.path) == ("PATCH", REQUEST.path)
    after = kube.get(PODS, "train", namespace="team")
    assert order_of(after) == EvictOrder(by="root", reason="loud", at=START)
    assert after.metadata.annotation("other") == "stays"
    assert isinstance(sent.body, dict)
    assert sent.body["metadata"]["uid"] == before.metadata.uid
    assert set(sent.body) == {"metadata"}
    assert set(sent.body["metadata"]["annotations"]) == {names.EVICT}


def test_a_newer_order_replaces_the_previous_one(kube: FakeKube, orders: PodOrders) -> None:
    a_pod(kube)
    order(orders)
    orders.order("team", "train", by="toor", reason="fire", at=START + timedelta(seconds=5))
    found = order_of(kube.get(PODS, "train", namespace="team"))
    assert found == EvictOrder(by="toor", reason="fire", at=START + timedelta(seconds=5))


OWNED = {"apiVersion": "apps/v1", "name": "d", "uid": "d-1", "controller": True}
REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "without a GPU": (
        {"spec": {"containers": [container()]}},
        "asks-for-no-gpu",
        "The pod team/train asks for no GPU: nothing is freed by it.",
    ),
    "not on a node": (
        {"spec": {"nodeName": None}},
        "holds-nothing",
        "The pod team/train waits, and holds no GPU: delete it.",
    ),
    "of Kubernetes": (
        {"namespace": "kube-system"},
        "never-evicted",
        "The pod kube-system/train stays: pods of the namespace kube-system are never evicted.",
    ),
    "of ours": (
        {"namespace": names.NAMESPACE},
        "never-evicted",
        f"The pod {names.NAMESPACE}/train stays: pods of the namespace {names.NAMESPACE} are never evicted.",
    ),
    "of a DaemonSet": (
        {"ownerReferences": [{**OWNED, "kind": "DaemonSet"}]},
        "never-evicted",
        "The pod team/train stays: pods of a DaemonSet are never evicted.",
    ),
    "of a Node": (
        {"ownerReferences": [{**OWNED, "kind": "Node"}]},
        "never-evicted",
        "The pod team/train stays: pods of a Node are never evicted.",
    ),
    "without a GPU on no node": (
        {"spec": {"containers": [container()], "nodeName": None}},
        "asks-for-no-gpu",
        "The pod team/train asks for no GPU: nothing is freed by it.",
    ),
}


@EACH_WAY
@pytest.mark.parametrize("what", REFUSED)
def test_a_pod_that_cannot_be_evicted_by_order_is_refused_with_a_message_and_nothing_is_sent(
    kube: FakeKube, orders: PodOrders, what: str, ask: Callable[..., object]
) -> None:
    pod, rule, message = REFUSED[what]
    a_pod(kube, **pod)
    with pytest.raises(RefusedError) as refused:
        ask(orders, namespace=pod.get("namespace", "team"))
    assert [(each.rule, each.message) for each in refused.value.violations] == [(rule, message)]
    assert [call.verb for call in kube.calls if call.verb == "PATCH"] == []


@EACH_WAY
def test_a_namespace_that_an_administrator_protects_keeps_its_pods(
    kube: FakeKube, orders: PodOrders, ask: Callable[..., object]
) -> None:
    a_pod(kube)
    kube.patch(NAMESPACES, "team", {"metadata": {"annotations": {names.NEVER_EVICT: "true"}}})
    with pytest.raises(RefusedError, match="an administrator has said that no pod of the namespace team"):
        ask(orders)


def refusal(code: int) -> Any:
    return refusal_of(code, b'{"message": "a policy says no"}')


AGAIN = (
    "The Kubernetes API server does not answer as it should: look whether the pod is still there, and order "
    "it again."
)
TROUBLE: dict[str, tuple[ApiError, type[Exception], str]] = {
    "gone": (
        NotFound(REQUEST, refusal(404)),
        UnknownPodError,
        "There is no pod train in the namespace team.",
    ),
    "another one": (
        Conflict(REQUEST, refusal(409)),
        UnknownPodError,
        "There is no pod train in the namespace team.",
    ),
    "forbidden": (
        Forbidden(REQUEST, refusal(403)),
        ClusterError,
        "The booking server may not order that: a policy says no",
    ),
    "unreachable": (Unreachable(REQUEST, "connection refused"), ClusterError, AGAIN),
    "a server error": (ServerError(REQUEST, refusal(500)), ClusterError, AGAIN),
    "overload": (TooManyRequests(REQUEST, refusal(429)), ClusterError, AGAIN),
    "an old token": (Unauthorized(REQUEST, refusal(401)), ClusterError, AGAIN),
}


@EACH_WAY
@pytest.mark.parametrize("verb", ["GET", "PATCH"])
@pytest.mark.parametrize("what", TROUBLE)
def test_each_failed_call_to_the_api_server_becomes_a_readable_message(
    kube: FakeKube, orders: PodOrders, what: str, verb: str, ask: Callable[..., object]
) -> None:
    error, kind, message = TROUBLE[what]
    a_pod(kube)
    kube.fail(verb, error)
    with pytest.raises(kind) as raised:
        ask(orders)
    assert str(raised.value) == message
    assert raised.value.__cause__ is error
    assert order_of(kube.get(PODS, "train", namespace="team")) is None


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({"containers": [container(gpus=2)]}, 2),
        ({"containers": [container("a", gpus=1), container("b", gpus=2)]}, 3),
        ({"initContainers": [container("i", gpus=4)], "containers": [container(gpus=1)]}, 4),
        ({"initContainers": [container("i", gpus=1)], "containers": [container(gpus=3)]}, 3),
        (
            {
                "initContainers": [{**container("s", gpus=1), "restartPolicy": "Always"}],
                "containers": [container(gpus=2)],
            },
            3,
        ),
        ({"containers": [container(mig=2)]}, 2),
        ({"containers": [container(gpus=1, mig=2)]}, 3),
    ],
    ids=["one", "two", "more before it runs", "fewer before it runs", "a sidecar", "MIG", "of two kinds"],
)
def test_a_pod_is_described_with_the_most_gpus_that_it_holds_at_one_time(
    kube: FakeKube, orders: PodOrders, spec: dict[str, Any], gpus: int
) -> None:
    a_pod(kube, spec=spec)
    assert dry_run(orders).gpus == gpus


SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "epoch", "uid": "s-1"}


@pytest.mark.parametrize(
    ("metadata", "described"),
    [
        ({}, {}),
        ({"annotations": {names.USER: "alice"}}, {"user": "alice"}),
        ({"annotations": {names.USER: "", names.BOOKING: ""}}, {}),
        ({"annotations": {names.USER: "a", names.BOOKING: "b-1"}}, {"user": "a", "booking": "b-1"}),
        ({"ownerReferences": [{**SET, "controller": True}]}, {"controller": "ReplicaSet/epoch"}),
        ({"ownerReferences": [{**SET, "controller": False}]}, {}),
        (
            {"ownerReferences": [{**SET, "name": "x", "controller": False}, {**SET, "controller": True}]},
            {"controller": "ReplicaSet/epoch"},
        ),
    ],
    ids=["nobody's", "somebody's", "empty words", "booked", "a set's", "only kept", "of two owners"],
)
def test_a_pod_is_described_by_its_owner_its_booking_and_its_controller(
    kube: FakeKube, orders: PodOrders, metadata: dict[str, Any], described: dict[str, str]
) -> None:
    a_pod(kube, **metadata)
    nothing: dict[str, Any] = {"user": None, "booking": None, "controller": None}
    assert dry_run(orders) == PodToEvict(node="n0", gpus=1, **{**nothing, **described})
    assert order_of(kube.get(PODS, "train", namespace="team")) is None


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"backoffLimit": 1}, None),
        ({"backoffLimit": 0, "parallelism": 2}, "its Job fails with it"),
        (
            {"backoffLimit": 0},
            "it fails with its only pod, which GPU Booking brings back with its request for GPUs",
        ),
    ],
)
def test_it_is_said_where_a_job_would_make_no_other_pod(
    kube: FakeKube, spec: dict[str, Any], why: str | None
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "epoch", "uid": "j-1", "controller": True}
    a_pod(kube, ownerReferences=[owner])
    job = msgspec.convert({"metadata": {"name": "epoch", "uid": "j-1"}, "spec": spec}, Job)
    orders = PodOrders(kube, home=names.NAMESPACE, jobs=lambda: {"team/epoch": job})
    assert dry_run(orders).not_replaced == why
