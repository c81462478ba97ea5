"""Which nodes are open to a booked pod that waits, and what must leave there before it fits (law L3)."""

from collections.abc import Callable

import pytest

from booking.controller.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod, waiting_pod
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder_cache import HolderCache
from cluster import names
from cluster.decide.scheduler_filters import checker_for
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A100, a6000


def alices(snapshot: ReclaimerSnapshot) -> WaitingPod:
    return waiting_pod(
        snapshot.pods["uid-a"], snapshot, checker_for(snapshot.pods["uid-a"], snapshot.cluster_objects)
    )


def candidates(snapshot: ReclaimerSnapshot, *ending: str) -> NodeCandidates:
    return NodeCandidates(snapshot, PlanningInputs(ending=frozenset(ending)), HolderCache())


@pytest.fixture
def tight(cluster: FakeCluster) -> FakeCluster:
    """The node has 8 CPUs: bob's pods use 2 each, alice's needs 3."""
    cluster.cache.keep_scheduling_objects()
    cluster.set_cpu("n0", "8")
    for name, cpu in {"b0": "2", "b1": "2", "b2": "2", "b3": "2", "a": "3"}.items():
        cluster.request_cpu(name, cpu)
    return cluster


def test_it_needs_what_the_pod_requests_and_what_its_booking_covers(cluster: FakeCluster) -> None:
    waiting = alices(cluster.snapshot())
    assert (waiting.model, waiting.need, waiting.booking.metadata.name) == (A100, 1, "b-1")
    assert waiting.closed == frozenset()


def test_a_full_node_is_open_to_it_but_it_does_not_fit_there(cluster: FakeCluster) -> None:
    waiting = alices(cluster.snapshot())
    assert waiting.is_open("n0")
    assert not waiting.fits("n0")
    cluster.gone("b3")
    assert alices(cluster.snapshot()).fits("n0")


@pytest.mark.parametrize(
    "close",
    [
        lambda cluster: cluster.annotate("a", names.BARRED, "n9, n0"),
        lambda cluster: cluster.lose_agent("n0") or cluster.clock.advance(76) or cluster.renew(),
        lambda cluster: cluster.stop_agent("n0"),
        lambda cluster: cluster.add_node("n0", unschedulable=True),
    ],
    ids=["barred", "its agent is unresponsive", "its agent stops", "cordoned"],
)
def test_a_node_is_closed_to_it(cluster: FakeCluster, close: Callable[[FakeCluster], object]) -> None:
    cluster.add_node("n1", a6000(0, "n1"))
    close(cluster)
    waiting = alices(cluster.snapshot())
    assert [node for node in ("n0", "n1") if waiting.is_open(node)] == ["n1"]


def test_with_a_hold_only_the_copy_has_it(cluster: FakeCluster) -> None:
    cluster.gone("b3")
    waiting = alices(cluster.snapshot())
    held = waiting.with_hold("n0", ("GPU-n0-3",))
    assert (held.request.hold, waiting.request.hold) == (Hold(node="n0", devices=("GPU-n0-3",)), None)
    assert held.fits("n0")
    assert not waiting.with_hold("n0", ("GPU-n0-2",)).fits("n0")


def test_the_cheapest_victim_by_devices_may_make_too_little_room(tight: FakeCluster) -> None:
    snapshot = tight.snapshot()
    waiting, candidate = alices(snapshot), candidates(snapshot).candidate("n0", A100)
    choice = candidates(snapshot).choice("n0", A100, 1)
    assert choice is not None
    assert [victim.uid for victim in choice.victims] == ["uid-b3"]
    assert waiting.verdict(candidate, choice) is None
    more = waiting.with_more_victims(candidate, None)
    assert more is not None
    assert [victim.uid for victim in more.victims] == ["uid-b2", "uid-b3"]
    assert waiting.verdict(candidate, more) == "suits"
    assert waiting.with_more_victims(candidate, choice) is None


def test_it_waits_for_the_room_of_a_pod_that_leaves_for_another_reason(tight: FakeCluster) -> None:
    snapshot = tight.snapshot()
    waiting, leaving = alices(snapshot), candidates(snapshot, "uid-b0")
    candidate = leaving.candidate("n0", A100)
    assert candidate.outgoing_pods == {"uid-b0"}
    more = waiting.with_more_victims(candidate, None)
    assert more is not None
    assert ([victim.uid for victim in more.victims], more.waits) == (["uid-b3"], True)
    assert waiting.verdict(candidate, more) == "waits"


def test_no_set_of_victims_is_enough_for_a_pod_larger_than_the_node(tight: FakeCluster) -> None:
    tight.request_cpu("a", "9")
    snapshot = tight.snapshot()
    assert alices(snapshot).with_more_victims(candidates(snapshot).candidate("n0", A100), None) is None


def test_with_a_free_device_it_may_still_wait_for_room(tight: FakeCluster) -> None:
    tight.gone("b1")
    snapshot = tight.snapshot()
    waiting, candidate = alices(snapshot), candidates(snapshot, "uid-b0").candidate("n0", A100)
    assert not waiting.fits("n0")
    choice = waiting.with_more_victims(candidate, None)
    assert choice is not None
    assert (choice.devices, choice.victims, choice.waits) == (("GPU-n0-1",), (), True)
