"""Agents come and go under a queue of pods, and kubelets report it late: a refusing node attracts no pods.

The kubelets write their Node's status as seldom as they do by default, every 10 s: for so long a node without
an agent seems free to everybody who reads the Node alone.
"""

import dataclasses
import itertools
import signal
import threading
from collections.abc import Iterator, Sequence

import pytest

from cluster import names
from cluster.decide.answer_windows import LARGEST
from cluster.kube.reflector import Reflector
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_terminal
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.product import Parts
from tests.e2e.playground import Playground
from tests.e2e.session import DESIGN
from tests.e2e.testbed import NODES, Testbed

pytestmark = pytest.mark.e2e

NODE = NODES[0]
ROUNDS = 20
WAITING = 60
"""Pods that wait or run at any time."""
WORKS = 2
"""Seconds that a pod runs."""
DEFAULT_PACE = {"nodeStatusUpdateFrequency": "10s", "nodeStatusReportFrequency": "5m"}


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    bed = Testbed(dataclasses.replace(DESIGN, name="serving", kubelet=DEFAULT_PACE))
    try:
        yield bed
    finally:
        bed.close()


class Failed:
    """Every pod that has failed, whatever became of it afterwards."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def replace(self, items: Sequence[Pod], _version: str, /) -> None:
        """All of them."""
        for pod in items:
            self.upsert(pod)

    def upsert(self, pod: Pod, /) -> None:
        """One has failed."""
        self.pods[pod.metadata.uid] = pod

    def remove(self, _pod: Pod, /) -> None:
        """It has failed all the same."""

    def describe(self) -> list[str]:
        """Who failed where, and why."""
        return [f"{p.metadata.name} on {p.spec.node_name}: {p.status.message}" for p in self.pods.values()]


class Queue:
    """Pods that want a GPU for a moment: as many as there are, others follow."""

    def __init__(self, playground: Playground) -> None:
        self._ground = playground
        self._numbers = itertools.count()
        self.failed = Failed()
        self._stop = threading.Event()
        selected = {"namespace": playground.namespace, "field_selector": "status.phase=Failed"}
        following = Reflector(playground.kube, PODS, self.failed, SystemClock(), **selected)
        self._thread = threading.Thread(target=following.run, args=(self._stop,))
        self._thread.start()

    def close(self) -> None:
        """Nobody follows."""
        self._stop.set()
        self._thread.join()

    def tend(self) -> dict[str, Pod]:
        """Take away who is done, and let others follow; uid -> pod, of those that live."""
        pods = self._ground.pods()
        for pod in pods:
            if pod.status.phase == "Succeeded" and not pod.metadata.deletion_timestamp:
                self._ground.delete(pod.metadata.name)
        living = {pod.metadata.uid: pod for pod in pods if not is_terminal(pod)}
        missing = range(WAITING - len(living))
        self._ground.create_all(
            probe.pod(
                f"job-{next(self._numbers)}",
                [probe.container("main", gpus=1, seconds=WORKS)],
                extra={"restartPolicy": "Never"},
            )
            for _ in missing
        )
        return living

    def running(self, node: str) -> set[str]:
        """Uids of those that run there."""
        return {
            uid
            for uid, pod in self.tend().items()
            if pod.spec.node_name == node and pod.status.phase == "Running"
        }

    def await_served(self, node: str, what: str) -> None:
        """Wait until a pod runs on a node that did not before."""
        before = self.running(node)
        self._ground.await_that(what, lambda: self.running(node) - before or None)


@pytest.fixture
def queue(playground: Playground) -> Iterator[Queue]:
    made = Queue(playground)
    try:
        for node in NODES:
            made.await_served(node, f"{node} is served")
        yield made
    finally:
        made.close()


def test_an_orderly_restart_of_an_agent_fails_no_pod(
    parts: Parts, playground: Playground, queue: Queue
) -> None:
    agent = parts.agent(NODE)
    for number in range(ROUNDS):
        agent.kill(signal.SIGTERM)
        playground.await_that(
            "the agent has gone", lambda: (queue.tend(), agent.exited is not None)[1] or None
        )
        agent.restart()
        queue.await_served(NODE, f"a pod runs after restart {number}")
        assert not queue.failed.pods, queue.failed.describe()


@pytest.fixture(params=[1, LARGEST])
def window(request: pytest.FixtureRequest, parts: Parts) -> Iterator[int]:
    """How many pods the extender lets be on their way to a node at one time, at most."""
    for settings in ({names.setting("bind_window"): str(request.param)}, None):
        for daemon in (parts.scheduler(), parts.extender()):
            daemon.kill()
        parts.start_pair(settings=settings)
        parts.await_ready()
        if settings:
            yield request.param


def test_the_death_of_an_agent_fails_no_more_pods_than_its_nodes_window(
    parts: Parts, playground: Playground, window: int, queue: Queue
) -> None:
    agent = parts.agent(NODE)
    for number in range(ROUNDS):
        before = len(queue.failed.pods)
        agent.kill(signal.SIGKILL)
        playground.await_that(
            "the agent is dead", lambda: (queue.tend(), agent.exited is not None)[1] or None
        )
        if number % 2:
            # Until then the node has seemed free, and pods have been bound to it.
            playground.await_that(
                "the kubelet has reported it",
                lambda: (queue.tend(), playground.allocatable(NODE) == 0)[1] or None,
            )
        agent.restart()
        queue.await_served(NODE, f"a pod runs after death {number}")
        lost = len(queue.failed.pods) - before
        assert lost <= window, queue.failed.describe()
    if queue.failed.pods:
        playground.await_node_event(NODE, "No GPU pod is bound here")
        assert parts.metric(parts.extender(), "extender_kubelet_rejections_total") == len(queue.failed.pods)
    assert all(pod.status.reason == "UnexpectedAdmissionError" for pod in queue.failed.pods.values())
