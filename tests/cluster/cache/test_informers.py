"""The cluster cache, filled by real reflectors from an API server in memory."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from cluster import names
from cluster.cache import ClusterCache, Informers
from cluster.cache.informers import LIVING, STALE_AFTER, UNSUCCESSFUL
from cluster.decide.ledger import WHOLE
from cluster.decide.ledger.amounts import Uses
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS, SECRETS, Secret
from tests.fakes.objects import a100, a_node, a_pod

NODE = a_node("n0", a100(0), a100(1))


class Followed:
    """A cache that follows an API server."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.cache = ClusterCache(self.clock)
        self.synced: list[str] = []
        """Who was notified that all has been read."""
        self.following = Informers(
            self.kube,
            self.cache,
            self.clock,
            namespace=names.NAMESPACE,
            once_synced=lambda: self.synced.append(threading.current_thread().name),
        )
        self.stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for name, body in self.following.threads.items():
            self._threads.append(threading.Thread(target=body, args=(self.stop,), name=name))
            self._threads[-1].start()

    def end(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def held(self) -> Uses:
        with self.cache.locked() as ledger:
            return dict(ledger.view("n0").held)

    def pods(self) -> set[str]:
        with self.cache.locked():
            return {pod.metadata.name for pod in self.cache.pods.values()}

    def agent(self) -> str:
        ((_, agent),) = self.cache.snapshot(("n0",))
        return agent

    def until_ready(self) -> None:
        eventually(lambda: self.following.unready_reason() is None)

    def put_lease(self, name: str = "gpu-node-n0") -> None:
        meta = {"name": name, "namespace": names.NAMESPACE}
        self.kube.put(LEASES, {"metadata": meta, "spec": {"renewTime": self.clock.now().isoformat()}})

    def put_node(self) -> None:
        meta = {"name": "n0", "annotations": dict(NODE.metadata.annotations or {})}
        self.kube.put(NODES, {"metadata": meta})

    def put_booking(self, name: str = "b-1") -> None:
        spec = {"user": "alice", "model": "NVIDIA-A100-SXM4-80GB", "count": 1}
        times = {"start": "2026-11-23T09:00:00Z", "end": "2026-11-25T09:00:00Z"}
        self.kube.put(BOOKINGS, {"metadata": {"name": name}, "spec": {**spec, **times}})


@pytest.fixture
def followed() -> Iterator[Followed]:
    made = Followed()
    yield made
    made.end()


def test_nothing_is_trusted_before_the_first_list(followed: Followed) -> None:
    assert followed.following.unready_reason() == "The pods of the cluster have not been read yet."
    assert followed.following.staleness() is None


def test_the_cache_holds_what_the_api_server_holds(followed: Followed) -> None:
    followed.put_node()
    followed.put_lease()
    followed.put_lease(names.MIRROR_LEASE)
    followed.put_booking()
    followed.kube.put(PODS, a_pod("bound").asks(1).on("n0", {"main": ("GPU-n0-0",)}).raw)
    followed.kube.put(PODS, a_pod("waits").asks(1).raw)
    followed.kube.put(PODS, a_pod("cpu").raw)

    followed.start()
    followed.until_ready()

    assert followed.held() == {"GPU-n0-0": WHOLE}
    assert followed.agent() == "alive"
    assert followed.pods() == {"bound", "waits"}
    assert set(followed.cache.nodes) == {"n0"}
    assert set(followed.cache.bookings) == {"b-1"}
    assert followed.cache.renewals.names() == (names.MIRROR_LEASE, "gpu-node-n0")


def test_it_is_reported_once_when_all_kinds_have_been_read(followed: Followed) -> None:
    for name, body in followed.following.threads.items():
        assert followed.synced == []
        thread = threading.Thread(target=body, args=(followed.stop,), name=name)
        followed._threads.append(thread)
        thread.start()
        reflector = followed.following._reflectors[name]
        eventually(lambda reflector=reflector: reflector.is_synced)
    eventually(lambda: len(followed.synced) == 1)
    for reflector in followed.following._reflectors.values():
        reflector.on_list()
    assert len(followed.synced) == 1


def test_changes_of_the_api_server_reach_the_cache(followed: Followed) -> None:
    followed.start()
    followed.until_ready()

    followed.kube.put(PODS, a_pod().asks(1).raw)
    eventually(lambda: followed.pods() == {"p"})
    followed.kube.put(PODS, a_pod().asks(1).on("n0", {"main": ("GPU-n0-1",)}).raw)
    eventually(lambda: followed.held() == {"GPU-n0-1": WHOLE})
    followed.put_node()
    followed.put_lease()
    eventually(lambda: followed.agent() == "alive")
    followed.kube.delete(LEASES, "gpu-node-n0", namespace=names.NAMESPACE)
    eventually(lambda: followed.agent() == "unseen")
    followed.put_booking()
    eventually(lambda: set(followed.cache.bookings) == {"b-1"})
    followed.kube.delete(BOOKINGS, "b-1")
    eventually(lambda: not followed.cache.bookings)


def test_a_pod_that_ends_releases_its_devices(followed: Followed) -> None:
    pod = a_pod().asks(1).on("n0", {"main": ("GPU-n0-0",)})
    followed.kube.put(PODS, pod.raw)
    followed.start()
    eventually(lambda: followed.held() == {"GPU-n0-0": WHOLE})

    followed.kube.put(PODS, pod.ended().raw)

    eventually(lambda: followed.held() == {})
    assert followed.pods() == set()


def test_objects_deleted_while_no_watch_ran_are_gone_after_the_next_list(followed: Followed) -> None:
    followed.put_node()
    followed.put_lease()
    followed.put_booking()
    followed.kube.put(PODS, a_pod().asks(1).on("n0", {"main": ("GPU-n0-0",)}).raw)
    followed.start()
    followed.until_ready()
    followed.kube.down = True
    followed.kube.break_watches()
    followed.kube.finish(PODS, "p", namespace="default")
    followed.kube.finish(NODES, "n0")
    followed.kube.finish(LEASES, "gpu-node-n0", namespace=names.NAMESPACE)
    followed.kube.finish(BOOKINGS, "b-1")
    followed.kube.forget_history()
    followed.kube.down = False

    def gone() -> bool:
        followed.clock.advance(60)
        cache = followed.cache
        left = followed.held() or followed.pods() or cache.nodes or cache.bookings
        return not left and cache.renewals.names() == () and followed.agent() == "unseen"

    eventually(gone)


def test_l6_a_cache_without_events_for_150_seconds_is_not_trusted(followed: Followed) -> None:
    followed.start()
    followed.until_ready()

    followed.clock.advance(STALE_AFTER + 1)

    assert followed.following.unready_reason() == (
        "There have been no events of pods from the API server for 150 seconds."
    )
    followed.kube.bookmark()
    followed.until_ready()


def test_l6_a_cache_is_trusted_up_to_150_seconds_after_the_last_event_of_each_kind(
    followed: Followed,
) -> None:
    followed.start()
    followed.until_ready()

    followed.clock.advance(STALE_AFTER)
    assert followed.following.staleness() == STALE_AFTER
    assert followed.following.unready_reason() is None

    followed.clock.advance(0.5)
    assert followed.following.staleness() == STALE_AFTER + 0.5
    assert followed.following.unready_reason() is not None


def test_l6_the_stalest_kind_counts(followed: Followed) -> None:
    followed.start()
    followed.until_ready()
    followed.clock.advance(STALE_AFTER)

    followed.put_node()
    eventually(lambda: set(followed.cache.nodes) == {"n0"})
    followed.clock.advance(1)

    assert followed.following.staleness() == STALE_AFTER + 1
    assert "no events of pods" in (followed.following.unready_reason() or "")


def test_lists_are_counted_for_each_kind(followed: Followed) -> None:
    kinds = {"pods", "nodes", "leases", "bookings"}
    assert followed.following.lists() == dict.fromkeys(kinds, 0)
    followed.start()
    followed.until_ready()
    assert followed.following.lists() == dict.fromkeys(kinds, 1)


@pytest.mark.parametrize(
    ("selection", "selected"), [(LIVING, {"waits", "runs"}), (UNSUCCESSFUL, {"waits", "runs", "failed"})]
)
def test_ended_pods_are_followed_only_where_failed_pods_are_wanted(
    selection: str, selected: set[str]
) -> None:
    clock, stop, seen = FakeClock(), threading.Event(), list[str]()
    kube = FakeKube(clock)
    for name, phase in (
        ("waits", "Pending"),
        ("runs", "Running"),
        ("failed", "Failed"),
        ("done", "Succeeded"),
    ):
        kube.put(PODS, a_pod(name).asks(1).ended(phase).raw)

    cache = ClusterCache(clock)
    cache.of(PODS).observe(lambda uid, _before, _pod: seen.append(uid.removeprefix("uid-")))
    informers = Informers(kube, cache, clock, namespace=names.NAMESPACE, pods=selection)
    thread = threading.Thread(target=informers.threads["pods"], args=(stop,))
    thread.start()
    try:
        eventually(lambda: informers.lists()["pods"] == 1)
        assert set(seen) == selected
    finally:
        stop.set()
        thread.join(10)


class Counting:
    """A handler that only counts."""

    def __init__(self) -> None:
        self.lists = 0

    def replace(self, items: Sequence[Secret], _version: str, /) -> None:
        self.lists += len(items) + 1

    def upsert(self, obj: Secret, /) -> None:
        """Nothing."""

    def remove(self, obj: Secret, /) -> None:
        """Nothing."""


def test_an_additional_kind_must_be_listed_too(followed: Followed) -> None:
    handler = Counting()
    followed.following.add("secrets", Reflector(followed.kube, SECRETS, handler, followed.clock))
    followed.start()

    followed.until_ready()

    assert handler.lists == 1


def test_a_lease_in_another_namespace_belongs_to_no_node(followed: Followed) -> None:
    followed.kube.put(LEASES, {"metadata": {"name": "gpu-node-n0", "namespace": names.KUBELET_LEASES}})
    followed.start()
    followed.until_ready()

    assert followed.cache.renewals.lease("gpu-node-n0") is None
