"""Bursts of pods with shares onto one node, some deleted meanwhile, while parts of ours are killed."""

import signal
from itertools import cycle, islice

import pytest

from cluster import names
from devcluster import probe
from devcluster.product import Parts
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-a"
BURST = 24
DELETED = 4
"""Every so manieth pod."""
SIZES = (1024, 2048, 3072, 5000, 8192)
"""MiB."""
ON_NODE = {"nodeSelector": {"kubernetes.io/hostname": NODE}}


def burst(playground: Playground, name: str) -> dict[str, int]:
    """Create pods at once, and delete some of them; those that stay, with the MiB that they ask for."""
    wanted = {f"{name}-{number}": memory for number, memory in enumerate(islice(cycle(SIZES), BURST))}
    for pod, memory in wanted.items():
        limits = {names.GPU_RESOURCE: "1", names.GPU_MEMORY: str(memory)}
        container = probe.container("main") | {"resources": {"limits": limits}}
        playground.create(probe.pod(pod, [container], extra=ON_NODE))
    for pod in list(wanted)[::DELETED]:
        playground.delete(pod)
        del wanted[pod]
    return wanted


@pytest.mark.parametrize("victim", ["agent", "extender"])
def test_l1_every_pod_of_a_burst_sees_its_gpu_and_its_limit_whoever_is_killed_meanwhile(
    parts: Parts, playground: Playground, victim: str
) -> None:
    daemon = parts.agent(NODE) if victim == "agent" else parts.extender()
    before, meanwhile = burst(playground, "before"), burst(playground, "meanwhile")
    daemon.kill(signal.SIGKILL)
    playground.await_that("it is gone", lambda: daemon.exited is not None)
    daemon.restart()
    wanted = {**before, **meanwhile, **burst(playground, "after")}

    def all_run() -> bool:
        """A pod that the kubelet refused while the agent was away comes back under its name."""
        running = {pod.metadata.name for pod in playground.pods() if pod.status.phase == "Running"}
        return running >= wanted.keys()

    playground.await_that("all of them run", all_run, seconds=180)
    for name, memory in wanted.items():
        (gpu,) = playground.assignment(name)["main"]
        seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
        assert seen is not None, name
        assert (seen.uuids, seen.env[names.GPU_MEMORY_VARIABLE]) == ((gpu,), str(memory)), name
    playground.laws.check()
