"""The picture, fed by real reflectors from an API server in memory."""

import threading
from collections.abc import Iterator

import pytest

from cluster.decide.ledger import WHOLE
from cluster.kube.resources import LEASES, NODES, PODS
from extender.state import ClusterState
from extender.sync import NO_NEWS, Sync
from tests.extender.cluster import Cluster
from tests.fakes.clock import FakeClock, eventually
from tests.fakes.kube import FakeKube
from tests.fakes.objects import a100, a_node, a_pod

NODE = a_node("n0", a100(0), a100(1))


class Synced:
    """An extender's picture that follows an API server."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.state = ClusterState(self.clock)
        self.sync = Sync(self.kube, self.state, self.clock, namespace="gpu-booking", scheduler="gpu-booking")
        self.stop = threading.Event()
        self._threads = [
            threading.Thread(target=body, args=(self.stop,), name=name)
            for name, body in self.sync.threads.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self.stop.set()
        for thread in self._threads:
            if thread.ident:
                thread.join(10)
                assert not thread.is_alive()

    def held(self) -> dict[str, int]:
        with self.state.locked() as ledger:
            return dict(ledger.view("n0").held)

    def waiting(self) -> set[str]:
        with self.state.locked():
            return {pod.metadata.name for pod in self.state.waiting.values()}

    def agent(self) -> str:
        ((_, agent),) = self.state.look(("n0",))
        return agent

    def until_ready(self) -> None:
        eventually(lambda: self.sync.obstacle() is None)


@pytest.fixture
def synced() -> Iterator[Synced]:
    made = Synced()
    yield made
    made.end()


def lease(synced: Synced, **metadata: str) -> dict[str, object]:
    meta = {"name": "gpu-node-n0", "namespace": "gpu-booking", **metadata}
    return {"metadata": meta, "spec": {"renewTime": synced.clock.now().isoformat()}}


def node() -> dict[str, object]:
    return {"metadata": {"name": "n0", "annotations": dict(NODE.metadata.annotations or {})}}


def test_nothing_is_trusted_before_the_first_list(synced: Synced) -> None:
    assert synced.sync.obstacle() == "The pods of the cluster have not been read yet."


def test_the_picture_is_what_the_api_server_holds(synced: Synced) -> None:
    synced.kube.put(NODES, node())
    synced.kube.put(LEASES, lease(synced))
    synced.kube.put(PODS, a_pod("bound").asks(1).on("n0", {"main": ("GPU-n0-0",)}).raw)
    synced.kube.put(PODS, a_pod("waits").asks(1).raw)
    synced.kube.put(PODS, a_pod("cpu").raw)
    synced.kube.put(PODS, a_pod("foreign").asks(1).scheduled_by("default-scheduler").raw)

    synced.start()
    synced.until_ready()

    assert synced.held() == {"GPU-n0-0": WHOLE}
    assert synced.agent() == "alive"
    assert synced.waiting() == {"waits"}


def test_changes_follow(synced: Synced) -> None:
    synced.start()
    synced.until_ready()

    synced.kube.put(PODS, a_pod().asks(1).raw)
    eventually(lambda: synced.waiting() == {"p"})
    synced.kube.put(PODS, a_pod().asks(1).on("n0", {"main": ("GPU-n0-1",)}).raw)
    eventually(lambda: synced.held() == {"GPU-n0-1": WHOLE})
    assert synced.waiting() == set()
    synced.kube.put(NODES, node())
    synced.kube.put(LEASES, lease(synced))
    eventually(lambda: synced.agent() == "alive")
    synced.kube.delete(LEASES, "gpu-node-n0", namespace="gpu-booking")
    eventually(lambda: synced.agent() == "unseen")


def test_a_pod_that_ends_lets_go(synced: Synced) -> None:
    pod = a_pod().asks(1).on("n0", {"main": ("GPU-n0-0",)})
    synced.kube.put(PODS, pod.raw)
    synced.start()
    eventually(lambda: synced.held() == {"GPU-n0-0": WHOLE})

    synced.kube.put(PODS, pod.ended().raw)

    eventually(lambda: synced.held() == {})


def test_what_was_deleted_while_nobody_looked_is_gone_after_the_next_list(synced: Synced) -> None:
    synced.kube.put(NODES, node())
    synced.kube.put(LEASES, lease(synced))
    synced.kube.put(PODS, a_pod().asks(1).on("n0", {"main": ("GPU-n0-0",)}).raw)
    synced.kube.put(PODS, a_pod("q").asks(1).raw)
    synced.start()
    synced.until_ready()
    synced.kube.down = True
    synced.kube.break_watches()
    for resource, name, namespace in (
        (PODS, "p", "default"),
        (PODS, "q", "default"),
    ):
        synced.kube.finish(resource, name, namespace=namespace)
    synced.kube.finish(NODES, "n0")
    synced.kube.finish(LEASES, "gpu-node-n0", namespace="gpu-booking")
    synced.kube.forget_history()
    synced.kube.down = False

    def gone() -> bool:
        synced.clock.advance(60)
        with synced.state.locked() as ledger:
            return not (ledger.nodes() or synced.held() or synced.waiting()) and synced.agent() == "unseen"

    eventually(gone)


def test_l6_no_news_for_150_seconds_is_not_trusted(synced: Synced) -> None:
    synced.start()
    synced.until_ready()

    synced.clock.advance(NO_NEWS + 1)

    assert synced.sync.obstacle() == ("There has been no news of pods from the API server for 150 seconds.")
    synced.kube.bookmark()
    synced.until_ready()


def test_l1_a_list_that_is_older_than_a_bind_does_not_free_its_device() -> None:
    cluster = Cluster()
    cluster.add_node()
    pod = cluster.create(a_pod().asks(1))
    listed = cluster.kube.list(PODS).resource_version
    cluster.ask(pod)
    assert cluster.bind_to(pod) == ""
    bound = cluster.kube.get(PODS, "p", namespace=pod.metadata.namespace)
    with cluster.state.locked() as ledger:
        ledger.apply_pod(bound)

    cluster.pods.replace((), listed)

    assert sum(cluster.view().held.values()) == 1000


def test_a_pod_that_is_missing_in_a_newer_list_holds_nothing() -> None:
    cluster = Cluster()
    cluster.add_node()
    pod = cluster.create(a_pod().asks(1))
    cluster.ask(pod)
    assert cluster.bind_to(pod) == ""
    cluster.kube.delete(PODS, "p", namespace=pod.metadata.namespace, grace_seconds=0)

    cluster.pods.replace((), cluster.kube.list(PODS).resource_version)

    assert not cluster.view().held
