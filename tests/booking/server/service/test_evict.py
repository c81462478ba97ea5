"""An order to evict a pod: written on exactly the pod that was read, with who and why, and audited."""

from typing import Any

import pytest

from booking.policy.limits import Limits
from booking.server.errors import ClusterError, NotAllowedError, RefusedError, UnknownPodError
from booking.server.service import BookingService
from booking.server.service.evict_orders import PodOrders
from booking.server.store import Store
from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import NAMESPACES, PODS
from cluster.objects.evict_orders import EvictOrder, order_of
from tests.fakes.objects import a_pod
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER

ROOT = an_administrator()


@pytest.fixture
def kube(clock: FakeClock) -> FakeKube:
    fake = FakeKube(clock)
    for name in ("team", "default", "kube-system", names.NAMESPACE):
        fake.create(NAMESPACES, {"metadata": {"name": name}})
    return fake


@pytest.fixture
def service(store: Store, clock: FakeClock, kube: FakeKube) -> BookingService:
    orders = PodOrders(kube, home=names.NAMESPACE)
    return BookingService(store, clock, Limits(), lambda: CLUSTER, evictions=orders)


def a_running_pod(kube: FakeKube, *, gpus: int = 1, namespace: str = "team", **metadata: Any) -> None:
    """``team/train`` on a node."""
    limits = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
    kube.create(
        PODS,
        {
            "metadata": {"name": "train", **metadata},
            "spec": {"nodeName": "n0", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        },
        namespace=namespace,
    )


def audited(service: BookingService) -> list[tuple[str, str, str | None]]:
    """Newest first."""
    return [(entry.action, entry.subject, entry.reason) for entry in service.audit(ROOT).entries]


def test_an_order_is_written_on_the_pod_and_in_the_audit(service: BookingService, kube: FakeKube) -> None:
    a_running_pod(kube)
    service.evict(ROOT, "team", "train", " the rack is on fire ")
    order = order_of(kube.get(PODS, "train", namespace="team"))
    assert order == EvictOrder(by="root", reason="the rack is on fire", at=START)
    assert audited(service) == [("pod.evict", "team/train", "the rack is on fire")]


@pytest.mark.parametrize(
    ("pod", "rule"),
    [
        ({"gpus": 0}, "asks-for-no-gpu"),
        ({"namespace": "kube-system"}, "never-evicted"),
        ({"namespace": names.NAMESPACE}, "never-evicted"),
        ({"annotations": {names.STATIC_POD: "x"}}, "never-evicted"),
        (
            {
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": "d",
                        "uid": "d-1",
                        "controller": True,
                    }
                ]
            },
            "never-evicted",
        ),
    ],
)
def test_an_eviction_that_is_not_possible_by_order_is_refused_with_a_message(
    service: BookingService, kube: FakeKube, pod: dict[str, Any], rule: str
) -> None:
    a_running_pod(kube, **pod)
    namespace = pod.get("namespace", "team")
    with pytest.raises(RefusedError) as refused:
        service.evict(ROOT, namespace, "train", "because")
    assert [violation.rule for violation in refused.value.violations] == [rule]
    assert order_of(kube.get(PODS, "train", namespace=namespace)) is None
    assert [action for action, *_ in audited(service)] == ["pod.evict-failed", "pod.evict"]


def test_a_waiting_pod_cannot_be_evicted_since_it_holds_nothing(
    service: BookingService, kube: FakeKube
) -> None:
    kube.put(PODS, a_pod("train").asks(1).raw | {"kind": "Pod"})
    with pytest.raises(RefusedError, match="holds no GPU"):
        service.evict(ROOT, "default", "train", "because")


@pytest.mark.parametrize("name", ["nothing", "", "../../secrets", "x" * 300, "Ä", "a/b", "a\0"])
def test_a_missing_pod_is_unknown_under_any_name(service: BookingService, name: str) -> None:
    with pytest.raises(UnknownPodError):
        service.evict(ROOT, "team", name, "because")
    with pytest.raises(UnknownPodError):
        service.evict(ROOT, name, "train", "because")


def test_a_new_pod_of_the_same_name_gets_no_order(kube: FakeKube) -> None:
    a_running_pod(kube)

    class Replaced(PodOrders):
        def _require_evictable(self, pod: Any) -> None:
            super()._require_evictable(pod)
            kube.delete(PODS, "train", namespace="team")
            kube.finish(PODS, "train", namespace="team")
            a_running_pod(kube)

    with pytest.raises(UnknownPodError):
        Replaced(kube, home=names.NAMESPACE).order("team", "train", by="root", reason="because", at=START)
    assert order_of(kube.get(PODS, "train", namespace="team")) is None


def test_an_unreachable_api_server_is_reported_and_audited(service: BookingService, kube: FakeKube) -> None:
    a_running_pod(kube)
    kube.fail("PATCH", Unreachable(Request("PATCH", "/"), "connection refused"))
    with pytest.raises(ClusterError, match="order it again"):
        service.evict(ROOT, "team", "train", "because")
    assert [action for action, *_ in audited(service)] == ["pod.evict-failed", "pod.evict"]


def test_no_pod_is_evicted_without_a_reason_or_the_permission(
    service: BookingService, kube: FakeKube
) -> None:
    a_running_pod(kube)
    with pytest.raises(RefusedError, match="reason is missing"):
        service.evict(ROOT, "team", "train", " ")
    with pytest.raises(NotAllowedError):
        service.evict(somebody("alice"), "team", "train", "because")
    assert audited(service) == []
