"""Booked pods that wait, and what the controller shows of them and of the mirror."""

from datetime import timedelta
from math import isnan

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from booking.controller.reclaimer.gauges import Seen, Waiting, show, waiting
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.nodes import Lease
from cluster.objects.pods import Gate, Pod
from tests.fakes.objects import EPOCH, PodBuilder, a100, a_booking, a_lease, a_node, a_pod

HOUR = timedelta(hours=1)
MINE = a_booking(start=EPOCH - HOUR, end=EPOCH + HOUR)


def found(*pods: PodBuilder | Pod) -> Waiting:
    read = [pod.obj if isinstance(pod, PodBuilder) else pod for pod in pods]
    known = {pod.metadata.uid: pod for pod in read}
    return waiting(known, dict.fromkeys(known, MINE), EPOCH)


def test_without_waiting_pods_the_longest_wait_is_zero() -> None:
    assert found() == Waiting(0, 0.0)


def test_the_longest_wait_counts_from_the_creation_of_its_pod() -> None:
    first = a_pod("first").asks(1).created(EPOCH - timedelta(minutes=5))
    second = a_pod("second").asks(1).created(EPOCH - timedelta(minutes=1))
    assert found(first, second) == Waiting(2, 300.0)


def test_a_pod_older_than_its_booking_has_waited_since_the_booking_began() -> None:
    assert found(a_pod("early").asks(1).created(EPOCH - 9 * HOUR)) == Waiting(1, 3600.0)


def test_a_bound_pod_does_not_wait() -> None:
    assert found(a_pod("there").asks(1).created(EPOCH - HOUR).on("n0")) == Waiting(0, 0.0)


def test_a_pod_behind_the_scheduling_gate_of_another_does_not_count_as_waiting() -> None:
    pod = a_pod("gated").asks(1).created(EPOCH - HOUR).obj
    gated = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=(Gate(name="queue"),))
    )
    assert found(gated) == Waiting(0, 0.0)


def test_a_pod_behind_our_own_gate_counts_as_waiting() -> None:
    assert found(a_pod("queued").asks(1).created(EPOCH - HOUR).behind().obj) == Waiting(1, 3600.0)


class Shown:
    """A controller's cache, and the metrics about it."""

    def __init__(self) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.problem: str | None = None
        self.staleness: float | None = None
        self._registry = CollectorRegistry()
        show(Seen(self.cache, self.clock, lambda: self.staleness, lambda: self.problem), self._registry)

    def says(self, name: str) -> float:
        value = self._registry.get_sample_value(f"{names.METRICS_PREFIX}_controller_{name}")
        assert value is not None
        return value

    def mirror_renews(self) -> None:
        lease = a_lease(renewed=self.clock.now())
        named = msgspec.structs.replace(lease.metadata, name=names.MIRROR_LEASE, uid="mirror")
        self.cache.of(LEASES).upsert(Lease(metadata=named, spec=lease.spec))


@pytest.fixture
def shown() -> Shown:
    return Shown()


def test_the_wait_of_a_booked_pod_is_shown_and_grows_until_it_is_bound(shown: Shown) -> None:
    shown.cache.of(NODES).upsert(a_node("n0", a100(0)))
    shown.cache.of(BOOKINGS).upsert(MINE)
    pod = a_pod("mine").of("alice").asks(1).created(EPOCH)
    shown.cache.of(PODS).upsert(pod.obj)
    shown.clock.advance(400)
    assert (shown.says("booked_pods_waiting"), shown.says("longest_booked_wait_seconds")) == (1, 400)
    shown.cache.of(PODS).upsert(pod.at(2).on("n0", {"main": (a100(0).uuid,)}).obj)
    assert (shown.says("booked_pods_waiting"), shown.says("longest_booked_wait_seconds")) == (0, 0)


def test_an_opportunistic_pod_may_wait_indefinitely(shown: Shown) -> None:
    shown.cache.of(PODS).upsert(a_pod("opportunistic").of("bob").asks(1).created(EPOCH - 9 * HOUR).obj)
    assert shown.says("booked_pods_waiting") == 0


def test_pods_behind_our_gate_are_counted(shown: Shown) -> None:
    shown.cache.of(PODS).upsert(a_pod("opportunistic").of("bob").asks(1).behind().obj)
    shown.cache.of(PODS).upsert(a_pod("loose").of("bob").asks(1).obj)
    assert shown.says("pods_queued") == 1
    shown.cache.of(PODS).upsert(a_pod("opportunistic").of("bob").asks(1).at(2).obj)
    assert shown.says("pods_queued") == 0


def test_l6_waiting_pods_are_reported_as_unknown_while_the_cluster_is_unknown(shown: Shown) -> None:
    shown.problem = "There have been no events of pods."
    assert isnan(shown.says("booked_pods_waiting"))
    assert isnan(shown.says("longest_booked_wait_seconds"))


def test_the_age_of_the_mirrors_lease_grows_until_it_is_renewed(shown: Shown) -> None:
    assert isnan(shown.says("mirror_lease_age_seconds"))
    shown.mirror_renews()
    shown.clock.advance(70)
    assert shown.says("mirror_lease_age_seconds") == 70


def test_the_staleness_of_the_cache_is_shown(shown: Shown) -> None:
    assert isnan(shown.says("cache_staleness_seconds"))
    shown.staleness = 151.0
    assert shown.says("cache_staleness_seconds") == 151
