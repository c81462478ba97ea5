"""A node on which a hold was of no use is barred for the pod for a while, however often processes change."""

import pytest

from booking.controller.reclaimer.holds.barred_nodes import BARRED_FOR, BarredNodes
from booking.controller.reclaimer.planning.waiting_pod import barred
from cluster import names
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a_pod


@pytest.fixture
def cluster() -> FakeCluster:
    """Alice's booked pod waits."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.book()
    cluster.waiting("a")
    return cluster


@pytest.fixture
def bars(cluster: FakeCluster) -> BarredNodes:
    return BarredNodes(cluster.kube, cluster.clock)


def expired(bars: BarredNodes, cluster: FakeCluster) -> list[str]:
    return [pod.metadata.name for pod in bars.expired(cluster.snapshot())]


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (None, set()),
        ("", set()),
        ("n0", {"n0"}),
        ("n0,n1", {"n0", "n1"}),
        (" n0 , n1 ", {"n0", "n1"}),
        (",n0,,", {"n0"}),
        ("n0,n0", {"n0"}),
    ],
    ids=["no annotation", "empty", "one", "two", "with spaces", "with empty parts", "twice"],
)
def test_barred_nodes_are_read_from_the_pod_in_any_spelling(text: str | None, nodes: set[str]) -> None:
    pod = a_pod("a") if text is None else a_pod("a").with_annotation(names.BARRED, text)
    assert barred(pod.obj) == nodes


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "n5"), ("n9", "n5,n9"), ("n1,n9", "n1,n5,n9"), ("n5", "n5")],
    ids=["the first", "before another", "between", "again"],
)
def test_another_barred_node_is_written_in_order_and_once(
    cluster: FakeCluster, bars: BarredNodes, before: str, after: str
) -> None:
    cluster.annotate("a", names.BARRED, before)
    assert bars.with_node(cluster.pod("a"), "n5") == after


def test_a_bar_expires_when_it_has_been_unchanged_for_its_time(
    cluster: FakeCluster, bars: BarredNodes
) -> None:
    cluster.annotate("a", names.BARRED, "n0")
    assert expired(bars, cluster) == []
    cluster.clock.advance(BARRED_FOR - 1)
    assert expired(bars, cluster) == []
    cluster.clock.advance(1)
    assert expired(bars, cluster) == ["a"]


@pytest.mark.parametrize("again", ["n0,n1", ""], ids=["another node", "lifted by hand, and barred again"])
def test_a_changed_bar_starts_its_time_again(cluster: FakeCluster, bars: BarredNodes, again: str) -> None:
    cluster.annotate("a", names.BARRED, "n0")
    expired(bars, cluster)
    cluster.clock.advance(BARRED_FOR - 1)
    cluster.annotate("a", names.BARRED, again)
    expired(bars, cluster)
    cluster.annotate("a", names.BARRED, again or "n0")
    expired(bars, cluster)
    cluster.clock.advance(BARRED_FOR - 1)
    assert expired(bars, cluster) == []
    cluster.clock.advance(1)
    assert expired(bars, cluster) == ["a"]


def test_a_restarted_process_measures_from_its_start(cluster: FakeCluster, bars: BarredNodes) -> None:
    cluster.annotate("a", names.BARRED, "n0")
    expired(bars, cluster)
    cluster.clock.advance(BARRED_FOR)
    assert expired(BarredNodes(cluster.kube, cluster.clock), cluster) == []


def test_the_bars_of_a_bound_pod_do_not_expire(cluster: FakeCluster, bars: BarredNodes) -> None:
    cluster.annotate("a", names.BARRED, "n0")
    expired(bars, cluster)
    cluster.bind("a", 0)
    cluster.clock.advance(BARRED_FOR)
    assert expired(bars, cluster) == []


def test_lifting_affects_this_pod_alone_and_a_later_bar_has_its_own_time(
    cluster: FakeCluster, bars: BarredNodes
) -> None:
    cluster.annotate("a", names.BARRED, "n0")
    expired(bars, cluster)
    cluster.clock.advance(BARRED_FOR)
    (pod,) = bars.expired(cluster.snapshot())
    bars.lift(pod)
    body = cluster.kube.calls[-1].body
    assert body == {"metadata": {"uid": pod.metadata.uid, "annotations": {names.BARRED: None}}}
    assert cluster.annotation("a", names.BARRED) is None
    cluster.annotate("a", names.BARRED, "n0")
    assert expired(bars, cluster) == []
