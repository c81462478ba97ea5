"""The kubelet can give one device to two pods; our agent never lets it (law L1).

Seen with kubelet 1.36 and 1.37: a pod ends while the Allocate of the next one is in flight, and anybody calls
PodResources List meanwhile. The device of the Allocate in flight is then offered again.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import names
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.parts import Parts
from tests.e2e.playground import HOSTNAME, NAIVE, Playground
from tests.laws.live import LiveWatch

pytestmark = pytest.mark.e2e

NODE = "node-a"
ACTORS = Path(__file__).parent / "actors"
GPUS = 4
SLEEP_SECONDS = 4
GRACE_SECONDS = 20


class Gate:
    """Shut while its file exists."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def shut(self) -> None:
        self.path.touch()

    def open(self) -> None:
        self.path.unlink(missing_ok=True)


@pytest.fixture
def gate(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Gate]:
    made = Gate(cluster.state / "parts" / f"{request.node.name}.gate")
    yield made
    made.open()


@pytest.fixture
def lister(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    name = f"lister-{request.node.name}"
    daemon = cluster.spawn(name, [sys.executable, str(ACTORS / "foreign_lister.py")], node=NODE)
    yield daemon
    daemon.kill()


def provoke(playground: Playground, *, gate: Gate, agent: Daemon, lister: Daemon, resource: str) -> str:
    """End the first pod while the second's Allocate is in flight and somebody lists; the second's name."""
    first = create(playground, "first", resource=resource, ends_slowly=True)
    playground.await_phase([first])
    gate.shut()
    asked = agent.log.read_text().count("allocate")
    playground.delete(first, grace_seconds=GRACE_SECONDS)
    playground.await_event(first, "Stopping container")
    second = create(playground, "second", resource=resource)
    playground.await_that(
        "the second pod's Allocate is in flight", lambda: agent.log.read_text().count("allocate") > asked
    )
    playground.await_that(
        "the first pod is gone", lambda: first not in {p.metadata.name for p in playground.pods()}
    )
    before = lister.log.read_text().count("listed")
    playground.await_that("somebody has listed", lambda: lister.log.read_text().count("listed") > before + 10)
    gate.open()
    playground.await_phase([second])
    return second


def create(playground: Playground, name: str, *, resource: str, ends_slowly: bool = False) -> str:
    container = probe.container("main")
    container["resources"] = {"limits": {resource: "1"}}
    if ends_slowly:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": SLEEP_SECONDS}}}
    extra = {"nodeSelector": {HOSTNAME: NODE}, "terminationGracePeriodSeconds": GRACE_SECONDS}
    body = probe.pod(name, [container], extra=extra)
    if resource != names.GPU_RESOURCE:
        body["spec"]["schedulerName"] = "default-scheduler"
    return playground.create(body)


def test_a_plugin_that_trusts_the_kubelet_gives_one_device_to_two_pods(
    cluster: Cluster, playground: Playground, laws: LiveWatch, gate: Gate, lister: Daemon
) -> None:
    devices = "naive-0,naive-1,naive-2"
    command = [sys.executable, str(ACTORS / "naive_plugin.py"), NAIVE, str(gate.path), devices]
    plugin = cluster.spawn("naive-plugin", command, node=NODE)
    playground.await_that(
        "the naive plugin's devices are advertised",
        lambda: (playground.node(NODE).status.allocatable or {}).get(NAIVE) == "3",
    )
    with laws.expecting("L1") as found:
        second = provoke(playground, gate=gate, agent=plugin, lister=lister, resource=NAIVE)
        others = [create(playground, f"third-{n}", resource=NAIVE) for n in range(2)]
        running = playground.await_that(
            "two pods have one device",
            lambda: doubles if (doubles := _doubles(playground, [second, *others])) else None,
        )
    plugin.kill()
    playground.clear()
    assert {error.sentence.split()[0] for error in found} == running


def test_our_agent_gives_the_device_to_one_pod_only(
    parts: Parts, playground: Playground, gate: Gate, lister: Daemon
) -> None:
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    agent = parts.start_agent(
        NODE, name="gated-agent", program=[sys.executable, str(ACTORS / "gated_agent.py"), str(gate.path)]
    )
    playground.await_gpus(NODE, GPUS)
    second = provoke(playground, gate=gate, agent=agent, lister=lister, resource=names.GPU_RESOURCE)
    others = [playground.simple(f"third-{n}", node=NODE) for n in range(GPUS - 1)]
    playground.await_phase(others)
    for name in (second, *others):
        playground.check_agreement(name)
    playground.check_law_1()
    assert parts.metric(agent, "busy_devices_offered_total") > 0, "the kubelet did not do what this is about"

    agent.kill()
    playground.await_gpus(NODE, 0)
    parts.agent(NODE).restart()
    playground.await_gpus(NODE, GPUS)


def _doubles(playground: Playground, pods: list[str]) -> set[str]:
    seen: list[str] = []
    for name in pods:
        if playground.pod(name).status.phase == "Running":
            seen += [d for devices in playground.kubelet_says(name).values() for d in devices]
    return {device for device in seen if seen.count(device) > 1}
