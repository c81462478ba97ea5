"""Two hundred pods that wait behind our scheduling gate, a stock kube-scheduler, and two controllers."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

import pytest

from cluster import event_reasons, names
from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.interface import Selection
from cluster.kube.resources import EVENTS, PODS
from cluster.objects.pods import Pod, first_created
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.components import kwok
from devcluster.demo.access import administrator
from devcluster.product import Parts, booking_controller, chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.bench.simulated import GPUS, in_parallel, simulated
from tests.clusters import own
from tests.e2e.playground import PATIENCE
from tests.e2e.usual import WITHOUT_SHARES
from tests.laws.live import LiveWatch
from tests.long.controlplane.policies.policed import HOME, Json, People, a_pod, is_denied, pods

pytestmark = pytest.mark.controlplane

NODES: Final = 2
WAITING: Final = 200
SECOND: Final = "booking-controller-2"
CONTROLLERS: Final = (booking_controller.NAME, SECOND)
ON: Final = {names.setting("queue_gate"): "true", **WITHOUT_SHARES}
NO_GATES: Final = {"spec": {"schedulingGates": None}}


class Line:
    """Alice's pods on two simulated nodes of eight GPUs."""

    def __init__(self, cluster: Cluster, kube: KubeClient, parts: Parts, people: People) -> None:
        self.cluster, self.kube, self.parts, self.people = cluster, kube, parts, people

    def create(self, *wanted: str) -> None:
        """Pods of one GPU, each after the one before."""
        for name in wanted:
            answer = self.people.alice.create(pods(), self.body(name))
            assert answer.status == 201, answer.message

    def body(self, name: str) -> Json:
        return a_pod(gpus=1, name=name, spec={"nodeSelector": {kwok.LABEL: "true"}})

    def all(self) -> list[Pod]:
        return self.kube.list(PODS, Selection(namespace=HOME)).items

    def bound(self) -> set[str]:
        return {pod.metadata.name for pod in self.all() if pod.spec.node_name}

    def queued(self) -> list[str]:
        """Names of those behind the gate, the oldest first."""
        found = sorted(filter(is_queued, self.all()), key=lambda pod: (first_created(pod), pod.metadata.uid))
        return [pod.metadata.name for pod in found]

    def fill(self) -> list[str]:
        """A pod for every GPU; new ones wait behind the gate from then on."""
        running = [f"running-{number:02}" for number in range(NODES * GPUS)]
        self.create(*running)
        eventually(lambda: self.bound() == set(running), deadline=PATIENCE)
        eventually(lambda: self.would_queue() and self.is_led(), deadline=PATIENCE)
        return running

    def is_led(self) -> bool:
        return sum(self.leads(name) for name in CONTROLLERS) == 1

    def leads(self, name: str) -> bool:
        return self.parts.leads(self.parts.controller(name))

    def would_queue(self) -> bool:
        spec = self.people.alice.create(pods(), self.body("probe"), dry=True).body.get("spec", {})
        return {"name": names.QUEUE} in spec.get("schedulingGates", [])

    def free(self, pod: str) -> None:
        """One GPU is free."""
        self.kube.delete(PODS, pod, namespace=HOME, grace_seconds=0)

    def hand_over(self, pod: str) -> None:
        """One GPU is free; wait until somebody has it."""
        self.free(pod)
        eventually(lambda: pod not in self.bound() and len(self.bound()) == NODES * GPUS, deadline=PATIENCE)

    def clear(self) -> None:
        left = [pod.metadata.name for pod in self.all()]
        in_parallel([partial(self.free, name) for name in left])
        eventually(lambda: not self.all(), deadline=PATIENCE)


@pytest.fixture(scope="module")
def running() -> Iterator[Line]:
    """The chart with its policies, the pair that schedules, and two controllers, one with the webhook."""
    spec = ClusterSpec(name=own("queue"), nodes=(NodeSpec(name="node-a"),))
    with (
        Cluster.start(spec) as cluster,
        closing(administrator(cluster)) as kube,
        # Its nodes are simulated: there is no kubelet, and no checkpoint.
        LiveWatch(administrator(cluster), SystemClock(), {}) as laws,
    ):
        chart.install(cluster, chart.external_values(cluster.address))
        people, parts = People(cluster), Parts(cluster)
        parts.start_pair()
        parts.start_controller(ON)
        parts.start_controller(ON, name=SECOND)
        with simulated(cluster, kube, NODES):
            line = Line(cluster, kube, parts, people)
            eventually(lambda: parts.is_ready(parts.controller()), deadline=PATIENCE)
            eventually(
                lambda: people.alice.create(pods(), line.body("probe"), dry=True).status == 201,
                deadline=PATIENCE,
            )
            yield line
            laws.check()


@pytest.fixture
def line(running: Line) -> Iterator[Line]:
    yield running
    running.clear()


def test_each_freed_gpu_goes_to_the_next_pod_in_line_whichever_controller_leads(line: Line) -> None:
    running = line.fill()
    waiting = [f"waiting-{number:03}" for number in range(WAITING)]
    line.create(*waiting)
    # One is let go ahead of its turn.
    eventually(lambda: len(line.queued()) == WAITING - 1, deadline=PATIENCE)
    turn = [*(set(waiting) - set(line.queued())), *line.queued()]

    for pod in running[:8]:
        line.hand_over(pod)
    leader = next(name for name in CONTROLLERS if line.leads(name))
    line.parts.controller(leader).kill()
    for pod in running[8:12]:  # the first to the pod that is ahead, while nobody leads
        line.hand_over(pod)
    line.parts.controller(leader).restart()
    for pod in running[12:]:
        line.hand_over(pod)

    # The next is let go when somebody takes more than some seconds to be bound.
    left = line.queued()
    assert left == turn[-len(left) :]
    assert line.bound() <= set(turn) - set(left)
    assert len(left) >= WAITING - 2 * len(running)


def test_the_event_of_a_queued_pod_names_what_is_in_the_way(line: Line) -> None:
    line.fill()
    line.create("ahead", "waits")
    eventually(lambda: line.queued() == ["waits"], deadline=PATIENCE)

    def reasons() -> set[str]:
        events = line.kube.list(EVENTS, Selection(namespace=HOME, field_selector="involvedObject.name=waits"))
        return {event.message for event in events.items if event.reason == event_reasons.WAITING_FOR_GPU}

    eventually(lambda: reasons() == {"All 16 healthy GPUs are in use."}, deadline=PATIENCE)


def test_l7_no_user_removes_the_gate_to_overtake_others(line: Line) -> None:
    line.fill()
    line.create("ahead", "waits")
    eventually(lambda: line.queued() == ["waits"], deadline=PATIENCE)
    path, people = f"{pods()}/waits", line.people
    remove: Any = [{"op": "remove", "path": "/spec/schedulingGates"}]

    assert is_denied(people.alice.patch(path, NO_GATES), "waits in line")
    assert is_denied(people.alice.patch(path, remove, "application/json-patch+json"), "waits in line")
    assert is_denied(people.operator.patch(path, NO_GATES), "waits in line")
    whole = people.alice.get(path).body
    whole["spec"].pop("schedulingGates")
    assert is_denied(people.alice.replace(path, whole), "waits in line")
    assert people.alice.change(path, {"labels": {"a": "b"}}).status == 200
    assert line.queued() == ["waits"]
    # The controller lifts gates, and changes nothing else of what a pod is.
    more = {"spec": {"schedulingGates": None, "nodeSelector": {"a": "b"}}}
    assert is_denied(people.controller.patch(path, more))
    assert people.administrator.patch(path, NO_GATES).status == 200
    assert line.queued() == []


def test_l7_a_gate_of_ours_that_a_user_sets_is_removed(line: Line) -> None:
    body = line.body("forged")
    body["spec"]["schedulingGates"] = [{"name": names.QUEUE}]
    assert line.people.alice.create(pods(), body).status == 201
    eventually(lambda: line.bound() == {"forged"}, deadline=PATIENCE)
    without = a_pod(name="no-gpu", spec={"schedulingGates": [{"name": names.QUEUE}]})
    assert "schedulingGates" not in line.people.alice.create(pods(), without).body["spec"]


def test_new_pods_queue_behind_those_that_already_wait_for_the_same_gpus(line: Line) -> None:
    running = line.fill()
    for pod in running[:3]:
        line.free(pod)
    eventually(lambda: not line.would_queue(), deadline=PATIENCE)
    burst = [f"burst-{number:02}" for number in range(60)]
    line.create(*burst)
    eventually(lambda: len(line.bound()) == NODES * GPUS, deadline=PATIENCE)
    # Not all others do: the first ones may not have reached the webhook when it was asked about the next.
    assert line.queued()
