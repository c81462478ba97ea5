"""Who would be evicted next: the reclaimer's own choice, one after the other."""

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from booking.cluster_status import take
from booking.eviction.eviction_order import Next, order, why
from booking.eviction.holder_cache import HolderCache
from booking.eviction_settings import EvictionSettings
from booking.reclaimer import snapshot
from booking.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from tests.fakes.objects import A100, A6000, a100, a6000, a_booking, a_lease, a_node, a_pod

HOUR = timedelta(hours=1)


class Stage:
    """Two nodes of two A100 and one A6000 each."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cache = ClusterCache(self.clock)
        self.cache.replace_nodes(
            [a_node(name, a100(0, name), a100(1, name), a6000(2, name)) for name in ("n0", "n1")]
        )
        for name in ("n0", "n1"):
            self.cache.apply_lease(a_lease(name, renewed=self.clock.now()))

    def run(self, name: str, node: str, *indices: int, worked: int = 1, evictions: int = 0) -> None:
        """A pod that has worked for so many hours."""
        devices = tuple(f"GPU-{node}-{index}" for index in indices)
        pod = a_pod(name).of("alice").asks(len(devices)).on(node, {"main": devices})
        made = pod.with_annotation(names.EVICTIONS, str(evictions)).obj
        status = msgspec.structs.replace(made.status, start_time=self.clock.now() - worked * HOUR)
        self.cache.apply_pod(msgspec.structs.replace(made, status=status))

    def next(self, **named: frozenset[str]) -> tuple[Next, ...]:
        """The order now."""
        return order(take(self.cache, self.clock, EvictionSettings()), **named)


def uids(found: tuple[Next, ...], model: str = A100) -> list[str]:
    return [one.uid.removeprefix("uid-") for one in found if one.model == model]


def test_the_pod_that_loses_least_is_first_model_by_model() -> None:
    stage = Stage()
    stage.run("long", "n0", 0, worked=9)
    stage.run("short", "n1", 0, worked=1)
    stage.run("other", "n1", 2)
    found = stage.next()
    assert (uids(found), uids(found, A6000)) == (["short", "long"], ["other"])
    assert [one.free for one in found if one.model == A100] == [2, 2]
    assert why(found[0], place=1) == (
        "No booking covers it, and its eviction would lose 1 hour of GPU time: the least."
    )


def test_of_equals_the_one_that_was_evicted_less_often_is_first_and_that_is_reported() -> None:
    stage = Stage()
    stage.run("unlucky", "n0", 0, evictions=2)
    stage.run("lucky", "n1", 0)
    found = stage.next()
    assert uids(found) == ["lucky", "unlucky"]
    assert why(found[1], place=2).endswith("the second least. It was evicted 2 times before.")


def test_booked_pods_and_those_on_their_way_are_not_in_the_order() -> None:
    stage = Stage()
    stage.run("booked", "n0", 0)
    stage.run("going", "n1", 0)
    now = stage.clock.now()
    stage.cache.apply_booking(a_booking(start=now, end=now + HOUR))
    assert uids(stage.next(excluded=frozenset({"uid-going"}))) == []
    assert uids(stage.next(nodes=frozenset({"n0"}))) == []
    assert uids(stage.next()) == ["going"]


@given(st.lists(st.tuples(st.sampled_from(("n0", "n1")), st.integers(0, 2), st.integers(0, 9)), max_size=6))
def test_the_first_is_the_pod_that_the_reclaimer_would_choose(running: list[tuple[str, int, int]]) -> None:
    stage = Stage()
    for node, index, worked in dict.fromkeys(running):
        stage.run(f"p-{node}-{index}", node, index, worked=worked)
    seen = snapshot.take(stage.cache, stage.clock)
    sites = NodeCandidates(seen, PlanningInputs(), HolderCache())
    found = stage.next()
    for model in (A100, A6000):
        free = {node: set(sites.site(node, model).free) for node in ("n0", "n1")}
        choices = [
            choice
            for node in ("n0", "n1")
            if (choice := sites.choice(node, model, len(free[node]) + 1)) and choice.victims
        ]
        best = min(choices, key=lambda choice: choice.rank, default=None)
        assert uids(found, model)[:1] == ([best.victims[0].uid.removeprefix("uid-")] if best else [])
