"""Pods that a kubelet refuses at admission come back, with their booking and their place (law L4)."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, first_created
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.pod_status import came_back_from, is_running
from devcluster.product import Parts
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, Playground
from tests.laws.live import LiveWatch

pytestmark = pytest.mark.e2e

NODE = "node-a"
A6000 = "NVIDIA-RTX-A6000"
GPUS = 4
A_WHILE = timedelta(seconds=10)
"""Seconds: a node that was without power is believed again after a while."""


def body(name: str, *, gpus: int = 1, restart: str = "Always", model: str | None = None) -> dict[str, Any]:
    """A pod for the one node."""
    extra = {"nodeSelector": {HOSTNAME: NODE}, "restartPolicy": restart}
    return probe.pod(name, [probe.container("main", gpus=gpus)], extra=extra, model=model)


def await_return(playground: Playground, before: Pod) -> Pod:
    """Wait until a pod runs that replaces this one, asks for what it asked for and has kept its place."""

    def back() -> Pod | None:
        now = {pod.metadata.name: pod for pod in playground.pods()}.get(before.metadata.name)
        return now if now and came_back_from(now) == before.metadata.uid and is_running(now) else None

    name = before.metadata.name
    after = playground.await_that(f"{name} comes back and runs", back)
    assert first_created(after) == before.metadata.creation_timestamp
    assert after.metadata.annotation(names.USER) == before.metadata.annotation(names.USER)
    return after


def has_run_for_a_while(pod: Pod) -> bool:
    """Whether its kubelet has had it for so long that it would have refused it before."""
    started = pod.status.start_time
    return started is not None and SystemClock().now() - started > A_WHILE


def refusal(pod: Pod) -> str | None:
    """Why a pod has failed."""
    return pod.status.reason if pod.status.phase == "Failed" else None


@pytest.fixture
def without_power(cluster: Cluster, playground: Playground) -> Iterator[None]:
    """The node is to lose its power in this test, and is as before afterwards."""
    yield
    for name, daemon in cluster.daemons.items():
        if name.startswith(f"{NODE}/") and daemon.exited is not None:
            daemon.restart()
    playground.await_gpus(NODE, GPUS)


def reboot(cluster: Cluster, parts: Parts) -> None:
    """The node loses its power and comes back, all but its agent, which is late."""
    agent = parts.agent(NODE)
    agent.kill()
    cluster.restart(NODE, late=(agent.name,))


def test_a_pod_bound_by_hand_to_a_full_node_waits_and_runs_when_there_is_room(
    playground: Playground, bob: Person
) -> None:
    holders = [bob.create(body(f"holder-{n}", restart="Never")) for n in range(GPUS)]
    playground.await_phase(holders)
    bob.create(body("pushed", restart="Never"))
    playground.await_waiting("pushed")
    before = playground.pod("pushed")
    binding = {"metadata": {"name": "pushed"}, "target": {"kind": "Node", "name": NODE}}
    playground.kube.create_subresource(
        PODS, "binding", binding, name="pushed", namespace=playground.namespace
    )

    def waits_again() -> Pod | None:
        now = {pod.metadata.name: pod for pod in playground.pods()}.get("pushed")
        waits = now and came_back_from(now) == before.metadata.uid and now.status.phase == "Pending"
        return now if waits else None

    again = playground.await_that("it comes back", waits_again)
    assert again.metadata.annotation(names.KUBELET_REJECTIONS) == "1"
    assert f"The kubelet of node {NODE} rejected this pod" in playground.await_event("pushed", "rejected")
    playground.await_waiting("pushed")
    playground.delete(holders[0])
    await_return(playground, before)
    playground.check_agreement("pushed")


@pytest.mark.usefixtures("without_power")
def test_a_pod_that_could_not_be_started_comes_back_and_one_with_a_wrong_command_stays_failed(
    playground: Playground, bob: Person, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.touch()
    unlucky = body("unlucky", restart="Never")
    unlucky["spec"]["volumes"] = [{"name": "place", "hostPath": {"path": str(place)}}]
    unlucky["spec"]["containers"][0]["volumeMounts"] = [{"name": "place", "mountPath": "/etc"}]
    wrong = body("wrong", restart="Never")
    wrong["spec"]["containers"][0]["command"] = ["/no/such/program"]
    was, failed = playground.pod(bob.create(unlucky)), playground.pod(bob.create(wrong))
    playground.await_event("unlucky", "No container of this pod could be started on node")
    place.unlink()
    place.mkdir()

    def runs_again() -> bool:
        now = {pod.metadata.name: pod for pod in playground.pods()}.get("unlucky")
        return now is not None and now.metadata.uid != was.metadata.uid and is_running(now)

    playground.await_that("it runs once its mount is possible", runs_again)
    playground.await_phase(["wrong"], "Failed")
    now = playground.pod("wrong")
    assert now.metadata.uid == failed.metadata.uid
    assert now.metadata.deletion_timestamp is None


def test_after_a_reboot_with_a_late_agent_pods_come_back_and_run(
    cluster: Cluster, parts: Parts, playground: Playground, alice: Person, bob: Person, laws: LiveWatch
) -> None:
    booking = alice.book(model=A100)
    bob.create(body("his", model=A6000))
    bob.create(body("his-once", model=A6000, restart="Never"))
    alice.create(body("hers", model=A100))
    playground.await_phase(["hers", "his", "his-once"])
    before = {name: playground.pod(name) for name in ("hers", "his", "his-once")}
    playground.await_that("it has run for a while", lambda: has_run_for_a_while(before["his-once"]) or None)
    laws.fault("the node has no power")
    reboot(cluster, parts)

    def is_refused() -> bool | None:
        once = refusal(playground.pod("his-once"))
        return once is not None or None

    playground.await_that("the kubelet refuses what ran on it", is_refused)
    for name in ("hers", "his"):
        playground.await_that(
            f"{name} is created again",
            lambda name=name: (
                any(came_back_from(p) == before[name].metadata.uid for p in playground.pods()) or None
            ),
        )
    parts.agent(NODE).restart()
    laws.fault("the node is as before")
    hers, his = await_return(playground, before["hers"]), await_return(playground, before["his"])
    assert hers.metadata.annotation(names.BOOKING) == booking
    assert (hers.spec.priority_class_name, his.spec.priority_class_name) == (
        names.BOOKED_CLASS,
        names.OPPORTUNISTIC_CLASS,
    )
    for name in ("hers", "his"):
        playground.check_agreement(name)
    once = playground.pod("his-once")
    assert once.metadata.uid == before["his-once"].metadata.uid
    assert "not run a second time" in playground.await_event("his-once", "restartPolicy is Never")
