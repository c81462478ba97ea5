"""When a part of ours has stopped: its workload is gone, its pods are, and nobody renews its Lease."""

from typing import Any, Final

import pytest

from booking.uninstall.stopping import Stopping
from cluster import names
from cluster.fake import FakeClock, FakeKube
from cluster.kube.resources import LEASES, MUTATING_WEBHOOKS, PODS
from tests.booking.uninstall.world import WORKLOADS

HOME: Final = names.NAMESPACE
MAY_RUN: Final = "The holder of Lease {} may still run: stop what runs outside this release."


class Release:
    """The parts of a release in memory, and what is said while they are stopped."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.said: list[str] = []
        self.stopping = Stopping(self.kube, self.clock, namespace=HOME, say=self.said.append)

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


def test_what_does_not_run_has_stopped_and_nothing_is_said(release: Release) -> None:
    assert release.stopping.controller() is None
    assert release.stopping.others() is None
    assert release.stopping.admission() is None
    assert release.said == []


def test_a_workload_is_deleted_once_and_its_pods_are_waited_for(release: Release) -> None:
    release.workload("controller")
    release.pod("controller", node="n1")
    for _ in range(2):
        left = "Pods of GPU Booking are still terminating: controller-0 on n1."
        assert release.stopping.controller() == left
    assert release.said == [f"Deployment {names.CONTROLLER} is stopped."]
    release.kube.finish(PODS, "controller-0", namespace=HOME)
    assert release.stopping.controller() is None


def test_a_pod_that_is_not_placed_yet_is_named_without_a_node(release: Release) -> None:
    release.pod("server")
    assert release.stopping.others() == "Pods of GPU Booking are still terminating: server-0."


def test_each_part_waits_for_its_own_pods_in_its_own_namespace(release: Release) -> None:
    release.pod("server")
    release.pod("controller", namespace="another-release")
    assert release.stopping.controller() is None


@pytest.mark.parametrize("seconds", [15, None], ids=["as it says", "the usual where it does not say"])
def test_a_lease_is_waited_for_from_when_it_was_seen_as_long_as_it_is_good_for(
    release: Release, seconds: int | None
) -> None:
    release.lease(names.CONTROLLER_LEASE, seconds=seconds)
    release.clock.advance(1000)
    assert release.stopping.controller() == MAY_RUN.format(names.CONTROLLER_LEASE)
    release.clock.advance((seconds or 30) - 1)
    assert release.stopping.controller() == MAY_RUN.format(names.CONTROLLER_LEASE)
    release.clock.advance(1)
    assert release.stopping.controller() is None


def test_each_renewal_of_a_lease_is_waited_for(release: Release) -> None:
    release.lease(names.CONTROLLER_LEASE)
    release.stopping.controller()
    release.clock.advance(14)
    release.kube.patch(LEASES, names.CONTROLLER_LEASE, {"spec": {"leaseTransitions": 1}}, namespace=HOME)
    assert release.stopping.controller() is not None
    release.clock.advance(14)
    assert release.stopping.controller() is not None
    release.clock.advance(1)
    assert release.stopping.controller() is None


def test_a_lease_that_was_released_is_held_by_nobody(release: Release) -> None:
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


def test_agents_are_not_asked_for_while_pods_of_ours_are_left(release: Release) -> None:
    release.pod("node-agent", node="n0")
    release.lease(names.node_lease("n0"))
    assert release.stopping.others() == "Pods of GPU Booking are still terminating: node-agent-0 on n0."


def test_that_new_pods_are_not_seen_any_more_is_said_once(release: Release) -> None:
    release.kube.put(MUTATING_WEBHOOKS, {"metadata": {"name": names.WEBHOOK}})
    assert release.stopping.admission() is None
    assert release.stopping.admission() is None
    assert release.said == ["GPU Booking does not see new pods from now on."]
