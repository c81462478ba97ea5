"""Another plugin of `nvidia.com/gpu` is there first, as NVIDIA's is: ours comes, it goes, and back again.

What docs/migration-from-nvidia.md says was measured, is measured here. The other plugin is a small one of
ours, which names devices by UUID as NVIDIA's does; NVIDIA's own needs a GPU.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import names
from cluster.kube.resources import PODS, WHOLE_PODS
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.fakenvml import FakeNvml
from devcluster.product import Parts
from tests.e2e.playground import HOSTNAME, Playground

pytestmark = pytest.mark.e2e

ACTORS = Path(__file__).parent / "actors"
NODE = "node-b"
GPUS = 4
UNSEEN = "kube-system"
"""Pods of this namespace are not shown to our webhook: they come as they did before there was one."""
OLD, AGAIN, BACK = "before-for-ever", "before-again-and-again", "after-the-way-back"
PODS_OF_OTHERS = (OLD, AGAIN, BACK)


def body(name: str, *, seconds: int | None = None) -> dict[str, Any]:
    """A pod of somebody who does not know of us; with ``seconds`` its container ends and starts again."""
    extra = {
        "nodeSelector": {HOSTNAME: NODE},
        "schedulerName": "default-scheduler",
        "restartPolicy": "Always",
    }
    return probe.pod(name, [probe.container("main", gpus=1, seconds=seconds)], extra=extra)


class Others:
    """The other plugin, and pods on its node that nobody showed to us."""

    def __init__(self, cluster: Cluster, playground: Playground) -> None:
        self.playground = playground
        self._cluster = cluster

    def plugin(self, name: str) -> Daemon:
        """The other plugin, beginning to run."""
        uuids = ",".join(FakeNvml(self._cluster.gpu_folder(NODE)).uuids())
        gate = self._cluster.state / "mine" / "always-open"
        command = [sys.executable, str(ACTORS / "naive_plugin.py"), names.GPU_RESOURCE, str(gate), uuids]
        return self._cluster.spawn(name, command, node=NODE)

    def run(self, name: str, *, seconds: int | None = None) -> frozenset[str]:
        """Create a pod and wait until its container has reported what it sees; the GPUs that it was given."""
        self.playground.kube.create(PODS, body(name, seconds=seconds), namespace=UNSEEN)
        self.playground.await_that(f"{name} has started", lambda: self._started(name))
        return self.given(name)

    def _started(self, name: str) -> bool:
        status = self._status(name)
        assert status.get("phase") != "Failed", status.get("message")
        return "containerID" in self.container(name)

    def given(self, name: str) -> frozenset[str]:
        """What its container of now sees."""
        sight = self.playground.await_that(
            f"{name} has reported what it sees",
            lambda: probe.read_sight(self.playground.kubectl, namespace=UNSEEN, name=name),
        )
        return frozenset(sight.uuids)

    def container(self, name: str) -> dict[str, Any]:
        """The status of its container, as Kubernetes writes it; empty while there is none."""
        return dict(next(iter(self._status(name).get("containerStatuses", ())), {}))

    def _status(self, name: str) -> dict[str, Any]:
        return self.playground.kube.get(WHOLE_PODS, name, namespace=UNSEEN).status

    def await_restart(self, name: str) -> None:
        """Wait until its container ends and starts once more, from now on."""
        before = self.container(name)["restartCount"]
        self.playground.await_that(
            f"{name} starts again",
            lambda: (now := self.container(name))["restartCount"] > before and "running" in now["state"],
        )

    def leave(self) -> None:
        words = ("delete", "pods", *PODS_OF_OTHERS, f"--namespace={UNSEEN}")
        self.playground.kubectl(*words, "--ignore-not-found", "--grace-period=1")


@pytest.fixture
def others(cluster: Cluster, parts: Parts, playground: Playground) -> Iterator[Others]:
    """Before us: the node without our agent, and another plugin on it."""
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    ground = Others(cluster, playground)
    yield ground
    ground.leave()


def uuids_of(playground: Playground, pod: str) -> frozenset[str]:
    return frozenset(uuid for chosen in playground.assignment(pod).values() for uuid in chosen)


def test_running_pods_of_another_plugin_stay_as_they_are_while_ours_comes_and_goes(
    parts: Parts, playground: Playground, others: Others
) -> None:
    theirs = others.plugin("other-plugin")
    playground.await_gpus(NODE, GPUS)
    held = {OLD: others.run(OLD), AGAIN: others.run(AGAIN, seconds=5)}
    container = others.container(OLD)["containerID"]

    # Both at once, ours being the newer; then it goes.
    parts.agent(NODE).restart()
    playground.await_that("our agent is ready", lambda: parts.is_ready(parts.agent(NODE)))
    assert playground.allocatable(NODE) == GPUS
    theirs.kill()
    ours = [playground.simple(f"ours-{n}", node=NODE) for n in range(GPUS - len(held))]
    playground.await_phase(ours)
    for name in ours:
        playground.check_agreement(name)
    taken = [uuids_of(playground, name) for name in ours]
    assert len(frozenset().union(*held.values(), *taken)) == GPUS, (held, taken)
    assert playground.allocatable(NODE) == GPUS

    # Pods that restart keep what they had.
    others.await_restart(AGAIN)
    assert others.given(AGAIN) == held[AGAIN]
    late = playground.simple("late", node=NODE)
    assert "Insufficient" in playground.await_waiting(late) or "GPU" in playground.await_waiting(late)
    playground.delete(late)

    # And back: ours goes, theirs comes, a pod of ours ends, and its GPU is given by the other plugin.
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    back = others.plugin("other-plugin-again")
    playground.await_gpus(NODE, GPUS)
    playground.delete(ours[0])
    assert others.run(BACK) == taken[0]
    assert playground.pod(ours[1]).status.phase == "Running"
    still = others.container(OLD)
    assert (still["containerID"], still["restartCount"]) == (container, 0)
    assert others.given(OLD) == held[OLD]

    others.leave()
    back.kill()
    parts.agent(NODE).restart()
    playground.await_gpus(NODE, GPUS)
