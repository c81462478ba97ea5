"""The capacity that can be booked, by the cluster's nodes and pods."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from booking.eviction.settings import EvictionSettings
from booking.policy.node_profiles import NodeProfile
from booking.policy.policy import Policy
from booking.server.capacity.capacity import Grant
from booking.server.node_capacity import NodeCapacity
from cluster import names
from cluster.cache import ClusterCache, Informers
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.resources import LEASES, NAMESPACES, NODES, PODS
from cluster.objects.inventory import Device
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_lease, a_node, a_pod


class Watched:
    """A cluster and its capacity, followed by threads."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.cache = ClusterCache(self.clock)
        following = Informers(
            self.kube, self.cache, self.clock, namespace=names.NAMESPACE, kinds=(NAMESPACES,)
        )
        self.capacity = NodeCapacity(
            self.cache, self.clock, EvictionSettings(), unready_reason=following.unready_reason
        )
        self.stop = threading.Event()
        self.threads = [
            threading.Thread(target=body, args=(self.stop,), daemon=True)
            for body in following.threads.values()
        ]

    def put(self, name: str, *devices: Device) -> None:
        node: dict[str, Any] = msgspec.to_builtins(a_node(name, *devices))
        self.kube.put(NODES, {"metadata": {"name": name, "annotations": node["metadata"].get("annotations")}})

    def start(self) -> None:
        for thread in self.threads:
            thread.start()
        eventually(lambda: self.capacity.unready_reason() is None)


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.stop.set()
    for thread in made.threads:
        if thread.is_alive():
            thread.join(10)
            assert not thread.is_alive()


def test_before_the_cluster_is_read_the_capacity_is_unknown(watched: Watched) -> None:
    assert watched.capacity.unready_reason() == "The pods of the cluster have not been read yet."


def test_devices_of_all_nodes_are_counted_and_followed(watched: Watched) -> None:
    watched.put("n0", a100(0), a100(1))
    watched.start()
    assert watched.capacity.capacity().devices == {A100: {"n0": 2}}

    watched.put("n1", a6000(0, "n1"))
    eventually(lambda: watched.capacity.capacity().models == (A100, A6000))
    watched.put("n0", a100(0), a100(1, health="unhealthy"))
    eventually(lambda: watched.capacity.capacity().total(A100) == 1)
    watched.kube.delete(NODES, "n0")
    eventually(lambda: watched.capacity.capacity().models == (A6000,))


def test_l6_without_events_for_150_seconds_the_capacity_is_no_longer_known(watched: Watched) -> None:
    watched.start()
    watched.kube.down = True
    watched.clock.advance(150)
    assert watched.capacity.unready_reason() is None

    watched.clock.advance(1)
    reason = watched.capacity.unready_reason()
    assert reason == "There have been no events of pods from the API server for 150 seconds."
    watched.kube.down = False
    watched.kube.bookmark()
    eventually(lambda: watched.capacity.unready_reason() is None)


def test_a_node_of_a_declared_pool_is_expected_until_it_is_there() -> None:
    clock, pool = FakeClock(), {"pool": "a100"}
    cache, policies = ClusterCache(clock), [Policy()]
    nodes = NodeCapacity(
        cache, clock, EvictionSettings(), unready_reason=lambda: None, policy=lambda: policies[-1]
    )
    assert nodes.capacity().devices == {}
    profile = NodeProfile(name="pool", model=A100, gpus=2, nodes=1, labels=pool)
    policies.append(Policy(nodes=(profile,)))
    assert nodes.capacity().devices == {A100: {"pool/1": 2}}
    new = a_node("new", a100(0), a100(1))
    cache.of(NODES).upsert(
        msgspec.structs.replace(new, metadata=msgspec.structs.replace(new.metadata, labels=pool))
    )
    assert nodes.capacity().devices == {A100: {"new": 2}}


class Held:
    """Two A100s on a node, and the pods that hold them."""

    def __init__(self, terms: EvictionSettings | None = None) -> None:
        self.clock = FakeClock()
        self.cache = ClusterCache(self.clock)
        self.capacity = NodeCapacity(
            self.cache, self.clock, terms or EvictionSettings(), unready_reason=lambda: None
        )
        self.cache.of(NODES).upsert(a_node("n0", a100(0), a100(1)))

    def on(self, pod: PodBuilder, *devices: int) -> "Held":
        given = {"main": tuple(f"GPU-n0-{index}" for index in devices)}
        self.cache.of(PODS).upsert(pod.asks(max(1, len(devices))).on("n0", given if devices else None).obj)
        return self

    def left(self) -> int:
        return self.capacity.capacity().total(A100)


def test_l6_devices_whose_holder_is_unknown_cannot_be_booked() -> None:
    assert Held().on(a_pod().of("alice")).left() == 1


def test_l6_no_booking_on_a_node_with_an_unresponsive_agent_can_start_within_minutes() -> None:
    held = Held()
    held.cache.of(LEASES).upsert(a_lease("n0", renewed=held.clock.now()))
    assert held.capacity.capacity().pauses == {}
    held.clock.advance(76)
    assert held.left() == 2
    until = held.clock.now() + timedelta(minutes=15)
    assert held.capacity.capacity().pauses == {A100: (Grant(node="n0", count=2, until=until),)}

    held.cache.of(LEASES).upsert(a_lease("n0", renewed=held.clock.now(), version=2))
    assert held.capacity.capacity().pauses == {}


def test_l6_an_agent_that_has_stopped_and_does_not_return_is_unresponsive_too() -> None:
    held = Held()
    held.cache.of(LEASES).upsert(a_lease("n0", renewed=held.clock.now(), stopping=True))
    held.clock.advance(74)
    assert held.capacity.capacity().pauses == {}
    held.clock.advance(2)
    assert [pause.node for pause in held.capacity.capacity().pauses[A100]] == ["n0"]


def test_l6_nothing_can_be_booked_on_a_node_whose_agent_is_unresponsive_for_an_hour() -> None:
    held = Held()
    held.cache.of(LEASES).upsert(a_lease("n0", renewed=held.clock.now()))
    held.clock.advance(3599)
    assert held.left() == 2
    held.clock.advance(1)
    assert held.left() == 0
    assert held.capacity.capacity().models == (A100,)


def test_the_capacity_is_rebuilt_only_when_something_has_changed() -> None:
    held = Held()
    first = held.capacity.capacity()
    assert held.capacity.capacity() is first
    held.cache.of(NODES).upsert(a_node("n1", a100(0, "n1"), version=2))
    assert held.capacity.capacity() is not first


def test_maintenance_is_reported_for_every_node() -> None:
    assert Held().capacity.blocked() == {"n0": ""}
