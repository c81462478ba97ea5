"""The cached supply of nodes equals one that is computed again."""

from datetime import timedelta
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import names
from cluster.cache import BookingPlans, ClusterCache
from cluster.cache.node_supply import NodeSupplies
from cluster.decide.booking_plan.supply import NodeSupply, node_supply
from cluster.fake.clock import FakeClock
from cluster.kube import resources
from cluster.kube.resources import BOOKINGS, LEASES, NAMESPACES, PODS
from cluster.objects.namespaces import Namespace
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a_booking, a_lease, a_node, a_pod

NODES = ("n0", "n1")


class Story:
    """A cache with random changes that concern places."""

    def __init__(self, random: Random) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.random = random
        self.version = 0

    def next(self) -> int:
        """A resourceVersion."""
        self.version += 1
        return self.version

    def step(self) -> None:
        """Make a random change."""
        self.random.choice(
            (self.node, self.pod, self.pod, self.booking, self.protected, self.time, self.lease)
        )()

    def node(self) -> None:
        name = self.random.choice(NODES)
        health = "unhealthy" if self.random.random() < 0.2 else "healthy"
        self.cache.of(resources.NODES).upsert(
            a_node(name, a100(0, name), a100(1, name, health=health), version=self.next())
        )

    def pod(self) -> None:
        name, node = f"p{self.random.randrange(4)}", self.random.choice(NODES)
        made = a_pod(name).asks(1).of(self.random.choice(("alice", "bob"))).at(self.next())
        bound = made.on(node, {"main": (f"GPU-{node}-{self.random.randrange(2)}",)})
        kinds = (made, bound, bound, made.on(node), bound.terminating(), bound.ended())
        self.cache.of(PODS).upsert(self.random.choice(kinds).obj)

    def booking(self) -> None:
        start = self.clock.now() + timedelta(minutes=self.random.choice((-5, 5)))
        model = self.random.choice((A100, A6000))
        made = a_booking(model=model, start=start, end=start + timedelta(minutes=10))
        meta = msgspec.structs.replace(made.metadata, resource_version=str(self.next()))
        self.cache.of(BOOKINGS).upsert(msgspec.structs.replace(made, metadata=meta))

    def protected(self) -> None:
        annotations = {names.NEVER_EVICT: self.random.choice(("true", "false"))}
        meta = {"name": "default", "annotations": annotations, "resourceVersion": str(self.next())}
        self.cache.of(NAMESPACES).upsert(msgspec.convert({"metadata": meta}, Namespace))

    def lease(self) -> None:
        node = self.random.choice(NODES)
        self.cache.of(LEASES).upsert(a_lease(node, renewed=self.clock.now(), version=self.next()))

    def time(self) -> None:
        self.clock.advance(self.random.choice((1, 200, 3600)))


@settings(max_examples=50)
@given(st.randoms(use_true_random=False))
def test_the_cached_supply_of_nodes_equals_a_fresh_computation(random: Random) -> None:
    story, kept = Story(random), NodeSupplies()
    for _ in range(60):
        story.step()
        now = story.clock.now()
        instant = story.cache.supply_snapshot(now, story.cache.cover(now))
        assert kept.of(instant) == {name: node_supply(view, instant) for name, view in instant.views.items()}


def test_changes_that_do_not_concern_the_plan_keep_it_and_its_answers() -> None:
    cache = ClusterCache(FakeClock(EPOCH))
    cache.of(resources.NODES).upsert(a_node("n0", a100(0), a100(1), a100(2)))
    start = EPOCH + timedelta(hours=1)
    places = [{"node": "n0", "count": 2}]
    whole = a_booking("b-2", user="dora", count=2, start=start, places=places, topology="single-node")
    cache.of(BOOKINGS).upsert(whole)
    booking_plans = BookingPlans(cache)
    before = booking_plans.places(EPOCH)
    assert before.checks

    other = a_pod("q").of("bob").asks(1).on("n0", {"main": ("GPU-n0-2",)})
    cache.of(PODS).upsert(other.obj)
    assert booking_plans.places(EPOCH) is before

    cache.of(resources.NODES).upsert(a_node("n0", a100(0), a100(1), version=2))
    assert booking_plans.places(EPOCH) is not before


class Supplied:
    """A node with a pod, and its cached supply."""

    def __init__(self, pod: PodBuilder) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.kept = NodeSupplies()
        self.cache.of(resources.NODES).upsert(a_node("n0", a100(0), a100(1)))
        self.cache.of(resources.NODES).upsert(a_node("n1", a100(0, "n1")))
        self.pod = pod.asks(1).on("n0", {"main": ("GPU-n0-0",)})
        self.cache.of(PODS).upsert(self.pod.obj)

    def now(self) -> dict[str, NodeSupply]:
        now = self.clock.now()
        return self.kept.of(self.cache.supply_snapshot(now, self.cache.cover(now)))


def test_a_node_without_a_renewal_for_an_hour_supplies_nothing_until_the_next_one() -> None:
    supplied = Supplied(a_pod())
    supplied.cache.of(LEASES).upsert(a_lease("n0", renewed=EPOCH))
    found = []
    for seconds in (0, 3599, 1):
        supplied.clock.advance(seconds)
        found.append(supplied.now()["n0"].devices[A100])
    supplied.cache.of(LEASES).upsert(a_lease("n0", renewed=supplied.clock.now(), version=2))
    assert [*found, supplied.now()["n0"].devices[A100]] == [2, 2, 0, 2]
    assert supplied.now()["n1"].devices == {A100: 1}
