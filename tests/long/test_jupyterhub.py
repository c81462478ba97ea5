"""A notebook that is evicted comes back where its hub polls it: KubeSpawner's own pod and ``poll``."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest

from cluster import names
from cluster.kube.interface import Kube, Selection, Watch
from cluster.kube.resources import PODS, WHOLE_PODS, WholePod
from cluster.objects.pods import Pod, asks_for_gpus, is_terminating
from cluster.process.clock import Clock, SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import person
from tests.e2e.hubs import HUB
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, Playground
from tests.long.workloads import CHEAP, a100

pytestmark = pytest.mark.e2e

ACTOR = Path(__file__).parent / "actors" / "hub.py"
NOTEBOOK = "notebook"
"""KubeSpawner's name of the container."""


class Hub:
    """The process ``actors/hub.py``, with the hub's own rights."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        token = cluster.service_account_token(HUB.namespace, HUB.name)
        self.kube = person(cluster, token)
        config = folder / "hub.kubeconfig"
        config.write_text(cluster.kubeconfig_text(token, "hub"))
        self._process = subprocess.Popen(
            [sys.executable, str(ACTOR), namespace, "alice", probe.IMAGE, "1"],
            env={**os.environ, "KUBECONFIG": str(config), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.manifest: dict[str, Any] = self._read()
        """The pod as KubeSpawner makes it."""

    def poll(self) -> tuple[int | None, str]:
        """The server's exit code (None: it lives), and the address to which the hub's proxy leads."""
        assert self._process.stdin
        self._process.stdin.write("poll\n")
        self._process.stdin.flush()
        answer = self._read()
        return answer["code"], answer["address"]

    def _read(self) -> Any:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """The hub ends."""
        with self._process:
            assert self._process.stdin
            self._process.stdin.close()


@dataclass
class Moments:
    """When what was seen of the pods of one name; monotonic seconds."""

    kube: Kube
    namespace: str
    name: str
    clock: Clock
    seen: dict[str, float] = field(default_factory=dict)
    _watch: Watch[Pod] | None = None

    def __enter__(self) -> Self:
        self._watch = self.kube.watch(PODS, Selection(namespace=self.namespace))
        Thread(target=self._follow, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._watch
        self._watch.close()

    def _follow(self) -> None:
        assert self._watch
        for event in self._watch:
            pod = event.object
            if isinstance(pod, Pod) and pod.metadata.name == self.name:
                self._note(event.type, pod)

    def _note(self, kind: str, pod: Pod) -> None:
        now = self.clock.monotonic()
        if kind == "DELETED":
            self.seen.setdefault("gone", now)
        elif pod.metadata.annotation(names.RECREATED_FROM):
            self.seen.setdefault("created", now)
        elif is_terminating(pod):
            statuses = pod.status.container_statuses or ()
            if any(status.state and status.state.terminated for status in statuses):
                self.seen.setdefault("ended", now)


@pytest.fixture
def hub(cluster: Cluster, playground: Playground, tmp_path: Path) -> Iterator[Hub]:
    """A hub whose ServiceAccount may edit in the test's namespace, as JupyterHub's chart has it."""
    HUB.admit(cluster.kubectl, playground.namespace)
    started = Hub(cluster, playground.namespace, tmp_path)
    yield started
    started.close()


def spawn(hub: Hub, playground: Playground) -> WholePod:
    """The hub starts its user's server; on a node whose GPUs bob will book."""
    body = hub.manifest
    body["spec"]["nodeSelector"] = {HOSTNAME: "node-a"}
    body["spec"]["terminationGracePeriodSeconds"] = 1
    body["spec"]["dnsPolicy"] = "Default"
    body["metadata"]["annotations"] |= {names.MODEL: A100, **CHEAP}
    name = hub.kube.create(PODS, body, namespace=playground.namespace).metadata.name
    playground.await_phase([name])
    return playground.kube.get(WHOLE_PODS, name, namespace=playground.namespace)


def address(pod: WholePod) -> str:
    return str(pod.status["podIP"])


def own(keys: dict[str, str] | None) -> dict[str, str]:
    """Annotations or labels without ours."""
    return {key: value for key, value in (keys or {}).items() if not names.is_ours(key)}


def environment(pod: WholePod) -> dict[str, str | None]:
    (container,) = pod.spec["containers"]
    found = {one["name"]: one.get("value") for one in container["env"]}
    found.pop(names.VISIBLE_DEVICES_VARIABLE, None)
    return found


def await_address(hub: Hub, playground: Playground, wanted: Callable[[], str]) -> None:
    """Poll until the hub's proxy leads there; the server never ends for it."""

    def leads() -> bool:
        code, known = hub.poll()
        assert code is None, f"The hub believes that the server has ended with {code}."
        return known == wanted()

    playground.await_that("the hub's proxy leads to the server", leads)


def test_an_evicted_notebook_is_found_by_its_hubs_next_poll_under_its_new_address(
    hub: Hub, bob: Person, playground: Playground
) -> None:
    was = spawn(hub, playground)
    name = was.metadata.name
    whose = [was.metadata.annotation(key) for key in (names.USER, names.NO_USER)]
    assert whose == ["alice", None]
    await_address(hub, playground, lambda: address(was))
    bob.book(2)
    clock = SystemClock()
    with Moments(playground.kube, playground.namespace, name, clock) as moments:
        bob.create(a100("booked", gpus=2, node="node-a"))
        playground.await_phase(["booked"])

        def back() -> bool:
            now = next((p for p in playground.pods() if p.metadata.name == name), None)
            return (
                now is not None
                and now.metadata.annotation(names.RECREATED_FROM) == was.metadata.uid
                and now.status.phase == "Running"
            )

        playground.await_that("the notebook is back", back)
    now = playground.kube.get(WHOLE_PODS, name, namespace=playground.namespace)
    await_address(hub, playground, lambda: address(now))
    assert address(now) != address(was)
    assert own(now.metadata.annotations) == own(was.metadata.annotations)
    assert own(now.metadata.labels) == own(was.metadata.labels)
    assert environment(now) == environment(was)
    assert [c["name"] for c in now.spec["containers"]] == [NOTEBOOK]
    assert not asks_for_gpus(playground.pod(name))
    seen = moments.seen
    assert seen["ended"] <= seen["created"]
    sys.stdout.write(
        f"container ended -> pod created: {seen['created'] - seen['ended']:.3f} s;"
        f" old pod gone -> pod created: {seen['created'] - seen['gone']:.3f} s\n"
    )
