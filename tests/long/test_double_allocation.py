"""The kubelet can give one device to two pods; our agent never lets it (law L1).

Seen with kubelet 1.36 and 1.37: a pod ends while the Allocate of the next one is in flight, and anybody calls
PodResources List meanwhile. The device of the Allocate in flight is then offered again.
"""

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cluster import names
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.product import Parts
from tests.e2e.playground import HOSTNAME, NAIVE, PATIENCE, Playground
from tests.laws.live import LiveWatch

pytestmark = pytest.mark.e2e

NODE = "node-a"
ACTORS = Path(__file__).parent / "actors"
GPUS = 4
GRACE_SECONDS = int(PATIENCE)
"""The pod that is to end has as long as anything may take: it ends when the test lets it."""


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


class PreStopHook:
    """A preStop hook: the kubelet asks it before it stops a container, and waits for the answer."""

    def __init__(self, address: str) -> None:
        """Args: address: of this machine, by which nodes reach it."""
        self.called = threading.Event()
        self._may_go = threading.Event()
        called, may_go = self.called, self._may_go

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                called.set()
                may_go.wait(GRACE_SECONDS)
                self.send_response(HTTPStatus.NO_CONTENT)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer((address, 0), Answer)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def hook(self) -> dict[str, Any]:
        """The handler, as a container names it."""
        address, port = self._server.server_address[:2]
        return {"httpGet": {"host": address, "port": port, "path": "/"}}

    def allow_end(self) -> None:
        """Pods that are asked about may end from now on."""
        self._may_go.set()

    def close(self) -> None:
        """Answer the calls that wait, and no more."""
        self.allow_end()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def pre_stop_hook(cluster: Cluster) -> Iterator[PreStopHook]:
    made = PreStopHook(cluster.host_address)
    yield made
    made.close()


@pytest.fixture
def lister(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    name = f"lister-{request.node.name}"
    daemon = cluster.spawn(name, [sys.executable, str(ACTORS / "foreign_lister.py")], node=NODE)
    yield daemon
    daemon.kill()


@dataclass(frozen=True)
class Provocation:
    """What makes the kubelet give one device twice: all that waits for the test, and who lists meanwhile."""

    gate: Gate
    pre_stop_hook: PreStopHook
    lister: Daemon


@pytest.fixture
def provocation(gate: Gate, pre_stop_hook: PreStopHook, lister: Daemon) -> Provocation:
    return Provocation(gate, pre_stop_hook, lister)


def provoke(playground: Playground, by: Provocation, *, agent: Daemon, resource: str) -> str:
    """End the first pod while the second's Allocate is in flight and somebody lists; the second's name."""
    gate, lister = by.gate, by.lister
    first = create(playground, "first", resource=resource, before_it_stops=by.pre_stop_hook.hook)
    playground.await_phase([first])
    gate.shut()
    allocations = agent.log.read_text().count("allocate")
    playground.delete(first, grace_seconds=GRACE_SECONDS)
    playground.await_that("the kubelet stops the first pod", by.pre_stop_hook.called.is_set)
    second = create(playground, "second", resource=resource)
    playground.await_that(
        "the second pod's Allocate is in flight",
        lambda: agent.log.read_text().count("allocate") > allocations,
    )
    by.pre_stop_hook.allow_end()
    playground.await_that(
        "the first pod is gone", lambda: first not in {p.metadata.name for p in playground.pods()}
    )
    before = lister.log.read_text().count("listed")
    playground.await_that("somebody has listed", lambda: lister.log.read_text().count("listed") > before + 10)
    gate.open()
    playground.await_phase([second])
    return second


def create(
    playground: Playground, name: str, *, resource: str, before_it_stops: dict[str, Any] | None = None
) -> str:
    container = probe.container("main")
    container["resources"] = {"limits": {resource: "1"}}
    if before_it_stops:
        container["lifecycle"] = {"preStop": before_it_stops}
    extra = {"nodeSelector": {HOSTNAME: NODE}, "terminationGracePeriodSeconds": GRACE_SECONDS}
    body = probe.pod(name, [container], extra=extra)
    if resource != names.GPU_RESOURCE:
        body["spec"]["schedulerName"] = "default-scheduler"
    return playground.create(body)


def a_naive_plugin(cluster: Cluster, playground: Playground, by: Provocation) -> Daemon:
    """One that trusts the kubelet, with three devices."""
    devices = "naive-0,naive-1,naive-2"
    command = [sys.executable, str(ACTORS / "naive_plugin.py"), NAIVE, str(by.gate.path), devices]
    plugin = cluster.spawn("naive-plugin", command, node=NODE)
    playground.await_that(
        "the naive plugin's devices are advertised",
        lambda: (playground.node(NODE).status.allocatable or {}).get(NAIVE) == "3",
    )
    return plugin


def give_one_device_twice(playground: Playground, plugin: Daemon, by: Provocation) -> set[str]:
    """What two pods have, by the kubelet."""
    second = provoke(playground, by, agent=plugin, resource=NAIVE)
    others = [create(playground, f"third-{n}", resource=NAIVE) for n in range(2)]
    return playground.await_that(
        "two pods have one device",
        lambda: doubles if (doubles := _doubles(playground, [second, *others])) else None,
    )


def test_a_plugin_that_trusts_the_kubelet_gives_one_device_to_two_pods(
    cluster: Cluster, playground: Playground, laws: LiveWatch, provocation: Provocation
) -> None:
    plugin = a_naive_plugin(cluster, playground, provocation)
    with laws.expecting("L1") as found:
        running = give_one_device_twice(playground, plugin, provocation)
    plugin.kill()
    playground.clear()
    assert {error.message.split()[0] for error in found} == running


def test_our_agent_gives_the_device_to_one_pod_only(
    parts: Parts, playground: Playground, provocation: Provocation
) -> None:
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    program = [sys.executable, str(ACTORS / "gated_agent.py"), str(provocation.gate.path)]
    agent = parts.start_agent(NODE, name="gated-agent", program=program)
    playground.await_gpus(NODE, GPUS)
    second = provoke(playground, provocation, agent=agent, resource=names.GPU_RESOURCE)
    others = [playground.simple(f"third-{n}", node=NODE) for n in range(GPUS - 1)]
    playground.await_phase(others)
    for name in (second, *others):
        playground.check_agreement(name)
    playground.check_law_1()
    assert parts.metric(agent, "busy_devices_available_total") > 0, (
        "the kubelet did not do what this is about"
    )

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
