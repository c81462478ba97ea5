"""When a component has stopped: its workload and its pods are gone, and its Lease is not renewed."""

from typing import Any, Final

import pytest

from booking.controller.uninstall.stopping import Stopping
from cluster import names
from cluster.fake import FakeClock, FakeKube
from cluster.kube.resources import LEASES, MUTATING_WEBHOOKS, PODS
from tests.booking.controller.uninstall.world import WORKLOADS

HOME: Final = names.NAMESPACE
MAY_RUN: Final = "The holder of Lease {} may still run: stop what runs outside this release."


class Release:
    """The components of a release in memory, and what is reported while they are stopped."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.reports: list[str] = []
        self.stopping = Stopping(self.kube, self.clock, namespace=HOME, report=self.reports.append)

    def workload(self, part: str) -> None:
        resource, name = WORKLOADS[part]
        self.kube.put(resource, {"metadata": {"name": name, "namespace": HOME}})

    def pod(self, part: str, *, node: str | None = None, namespace: str = HOME) -> None:
        labels = {"app.kubernetes.io/name": names.PRODUCT, names.COMPONENT: part}
        spec: dict[str, Any] = {"containers": [{"name": part}]} | ({"nodeName": node} if node else {})
        metadata = {"name": f"{part}-0", "namespace": namespace, "labels": labels}
        self.kube.put(PODS, {"metadata": metadata, "spec": spec})

    def lease(
        self, name: str, *, holder: str = "a laptop", seconds: int | None = 15, stopping: bool = False
    ) -> None:
        spec = {"holderIdentity": holder} | ({"leaseDurationSeconds": seconds} if seconds else {})
        metadata: dict[str, Any] = {"name": name, "namespace": HOME}
        if stopping:
            metadata["annotations"] = {names.STOPPING: "true"}
        self.kube.put(LEASES, {"metadata": metadata, "spec": spec})


@pytest.fixture
def release() -> Release:
    return Release()


def test_components_that_do_not_run_have_stopped_without_a_report(release: Release) -> None:
    assert release.stopping.controller() is None
    assert release.stopping.others() is None
    assert release.stopping.admission() is None
    assert release.reports == []


def test_a_workload_is_deleted_once_and_its_pods_are_awaited(release: Release) -> None:
    release.workload("controller")
    release.pod("controller", node="n1")
    for _ in range(2):
        left = "Pods of GPU Booking are still terminating: controller-0 on n1."
        assert release.stopping.controller() == left
    assert release.reports == [f"Deployment {names.CONTROLLER} is stopped."]
    release.kube.finish(PODS, "controller-0", namespace=HOME)
    assert release.stopping.controller() is None


def test_a_pod_that_is_not_placed_yet_is_named_without_a_node(release: Release) -> None:
    release.pod("server")
    assert release.stopping.others() == "Pods of GPU Booking are still terminating: server-0."


def test_each_component_waits_for_its_own_pods_in_its_own_namespace(release: Release) -> None:
    release.pod("server")
    release.pod("controller", namespace="another-release")
    assert release.stopping.controller() is None


@pytest.mark.parametrize("seconds", [15, None], ids=["as it says", "the usual where it does not say"])
def test_a_lease_is_waited_for_its_duration_from_when_it_was_first_seen(
    release: Release, seconds: int | None
) -> None:
    release.lease(names.CONTROLLER_LEASE, seconds=seconds)
    release.clock.advance(1000)
    assert release.stopping.controller() == MAY_RUN.format(names.CONTROLLER_LEASE)
    release.clock.advance((seconds or 30) - 1)
    assert release.stopping.controller() == MAY_RUN.format(names.CONTROLLER_LEASE)
    release.clock.advance(1)
    assert release.stopping.controller() is None


def test_each_renewal_of_a_lease_starts_the_wait_again(release: Release) -> None:
    release.lease(names.CONTROLLER_LEASE)
    release.stopping.controller()
    release.clock.advance(14)
    release.kube.patch(LEASES, names.CONTROLLER_LEASE, {"spec": {"leaseTransitions": 1}}, namespace=HOME)
    assert release.stopping.controller() is not None
    release.clock.advance(14)
    assert release.stopping.controller() is not None
    release.clock.advance(1)
    assert release.stopping.controller() is None


def test_a_released_lease_is_not_waited_for(release: Release) -> None:
    release.lease(names.CONTROLLER_LEASE, holder="")
    assert release.stopping.controller() is None


def test_agents_that_still_renew_are_named_and_those_that_have_stopped_are_not(release: Release) -> None:
    for node in ("n0", "n1"):
        release.lease(names.node_lease(node))
    release.lease(names.node_lease("n2"), stopping=True)
    release.lease("somebodys")
    expected = f"{names.node_lease('n0')}, {names.node_lease('n1')}"
    assert release.stopping.others() == MAY_RUN.format(expected)
    release.clock.advance(15)
    assert release.stopping.others() is None


def test_leases_of_agents_are_not_checked_while_pods_of_ours_are_left(release: Release) -> None:
    release.pod("node-agent", node="n0")
    release.lease(names.node_lease("n0"))
    assert release.stopping.others() == "Pods of GPU Booking are still terminating: node-agent-0 on n0."


def test_the_end_of_admission_is_reported_once(release: Release) -> None:
    release.kube.put(MUTATING_WEBHOOKS, {"metadata": {"name": names.WEBHOOK}})
    assert release.stopping.admission() is None
    assert release.stopping.admission() is None
    assert release.reports == ["GPU Booking does not see new pods from now on."]
