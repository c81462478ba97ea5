from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger.changes import SPARE
from cluster.kube.resources import NODES
from cluster.objects.assignment import encode_drift
from cluster.objects.bookings import Booking
from extender.settings import Settings
from extender.verbs.prioritize import KINDS, Prioritize, placement_of
from extender.wire import MAX_SCORE, ExtenderArgs, HostPriority
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, PodBuilder, a100, a_booking, a_node, a_pod


def cluster_with(*bound: PodBuilder) -> Cluster:
    cluster = Cluster()
    for node in ("n0", "n1"):
        cluster.add_node(node)
    for other in bound:
        cluster.create(other)
    return cluster


def ranked(cluster: Cluster, pod: PodBuilder, prioritize: Prioritize | None = None) -> dict[str, int]:
    args = ExtenderArgs(pod=pod.obj, node_names=("n0", "n1"))
    verb = prioritize or Prioritize(cluster.state, cluster.clock)
    return {one.host: one.score for one in verb(args)}


def scores(pod: PodBuilder, *bound: PodBuilder) -> dict[str, int]:
    return ranked(cluster_with(*bound), pod)


def test_a_pod_may_request_another_policy_than_the_configured_one() -> None:
    busy = a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}).ended("Running")

    assert scores(a_pod().asks(1).with_annotation(names.PLACEMENT, "spread"), busy) == {"n0": 7, "n1": 2}


def test_the_setting_applies_to_pods_that_request_no_policy_or_an_unknown_one() -> None:
    busy = a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}).ended("Running")
    cluster = cluster_with(busy)
    prioritize = Prioritize(cluster.state, cluster.clock, "spread")

    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 7, "n1": 2}
    assert ranked(cluster, a_pod().asks(1).with_annotation(names.PLACEMENT, "nowhere"), prioritize) == {
        "n0": 7,
        "n1": 2,
    }


@given(
    fills=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    plugins=st.lists(st.integers(0, 1000), min_size=6, max_size=6),
    weight=st.sampled_from((1, 10)),
)
def test_the_scheduler_chooses_the_same_node_as_with_all_scores(
    fills: list[int], plugins: list[int], weight: int
) -> None:
    cluster = Cluster()
    for number, held in enumerate(fills):
        node = f"n{number}"
        cluster.add_node(node)
        if held:
            uuids = tuple(f"GPU-{node}-{index}" for index in range(held))
            cluster.create(a_pod(f"q-{node}").asks(held).on(node, {"main": uuids}).ended("Running"))
    args = ExtenderArgs(pod=a_pod().asks(1).obj, node_names=tuple(f"n{n}" for n in range(len(fills))))
    prioritize = Prioritize(cluster.state, cluster.clock)

    def best(scores: list[HostPriority]) -> set[str]:
        ours = {one.host: one.score for one in scores}
        totals = {
            name: plugin + 10 * weight * ours.get(name, 0)
            for name, plugin in zip(args.node_names or (), plugins, strict=False)
        }
        return {name for name, total in totals.items() if total == max(totals.values())}

    sent = msgspec.json.decode(prioritize.answer_logged(args).text, type=list[HostPriority])
    assert best(sent) == best(prioritize(args))
    assert all(0 < one.score <= MAX_SCORE for one in sent)


def test_no_scores_are_sent_where_all_are_equal_and_the_log_line_has_the_score() -> None:
    cluster = cluster_with()
    answer = Prioritize(cluster.state, cluster.clock).answer_logged(
        ExtenderArgs(pod=a_pod().asks(4).obj, node_names=("n0", "n1"))
    )
    assert answer.text == b"[]"
    assert (answer.line["nodes"], answer.line["best"], answer.line["score"]) == (2, "n0", 10)


@pytest.mark.parametrize("placement", names.PLACEMENTS)
def test_every_policy_can_be_requested_and_set(placement: str) -> None:
    assert (
        placement_of(a_pod().with_annotation(names.PLACEMENT, f" {placement} ").obj, "binpack") == placement
    )
    assert Settings(placement=placement).placement == placement


def test_a_score_is_recomputed_when_its_node_has_changed() -> None:
    cluster = cluster_with()
    prioritize = Prioritize(cluster.state, cluster.clock)
    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 2, "n1": 2}

    cluster.create(a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}).ended("Running"))

    assert ranked(cluster, a_pod("r").asks(1), prioritize) == {"n0": 2, "n1": 7}


def running(cluster: Cluster, name: str, node: str, count: int, user: str = "alice") -> Booking:
    now = cluster.clock.now()
    return a_booking(
        name,
        user=user,
        count=count,
        start=now,
        end=now + timedelta(hours=9),
        places=[{"node": node, "count": count}],
    )


@pytest.fixture
def reserving() -> Cluster:
    """Both A100 of n0 are planned for alice's running booking; n1 is empty."""
    cluster = cluster_with()
    cluster.book(running(cluster, "b-alice", "n0", 2))
    return cluster


def reserving_pod(name: str = "p") -> PodBuilder:
    return a_pod(name).asks(1).wants(A100).with_annotation(names.PLACEMENT, "booked-reserve")


def test_an_opportunistic_pod_avoids_devices_that_a_running_booking_will_need(
    reserving: Cluster,
) -> None:
    assert ranked(reserving, reserving_pod().of("bob")) == {"n0": 4, "n1": 7}


def test_what_a_booking_will_need_counts_beside_what_other_pods_are_about_to_get() -> None:
    cluster = cluster_with()
    cluster.book(running(cluster, "b-alice", "n0", 1))
    other, pod = a_pod("q").asks(1), reserving_pod().of("bob")
    cluster.create(other)
    assert ranked(cluster, pod) == {"n0": 7, "n1": 7}
    cluster.state.reserve_softly(cluster.state.request(other.obj), "n0")
    assert ranked(cluster, pod)["n0"] < 5


def test_drift_of_a_pod_of_the_booking_counts(reserving: Cluster) -> None:
    reserving.create(a_pod("hers").of("alice").asks(2).on("n1").ended("Running"))
    drift = encode_drift({"uid-hers": {"main": ("GPU-n1-0", "GPU-n1-1")}})
    reserving.state.of(NODES).upsert(a_node("n1", a100(0, "n1"), a100(1, "n1"), version=99, drift=drift))
    assert ranked(reserving, reserving_pod().of("bob"))["n0"] == 7


def test_nothing_is_reserved_against_a_booked_pod(reserving: Cluster) -> None:
    pod = reserving_pod().of("alice")
    reserving.create(pod)
    assert ranked(reserving, pod) == {"n0": 7, "n1": 7}


def test_a_score_is_recomputed_when_a_booking_begins_to_need_a_node(reserving: Cluster) -> None:
    prioritize = Prioritize(reserving.state, reserving.clock)
    assert ranked(reserving, reserving_pod().of("bob"), prioritize) == {"n0": 4, "n1": 7}

    reserving.book(running(reserving, "b-carol", "n1", 2, user="carol"))

    assert ranked(reserving, reserving_pod("q").of("bob"), prioritize) == {"n0": 4, "n1": 4}


def test_scores_by_one_policy_are_not_those_by_another() -> None:
    cluster = cluster_with(a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}).ended("Running"))
    prioritize = Prioritize(cluster.state, cluster.clock)
    spreads = a_pod().asks(1).with_annotation(names.PLACEMENT, "spread")

    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 2, "n1": 7}
    assert ranked(cluster, spreads, prioritize) == {"n0": 7, "n1": 2}


def test_scores_of_a_pod_with_a_hold_are_not_those_of_pods_without_one() -> None:
    held = a_pod("q").asks(1).kept("n1", "GPU-n1-0").with_annotation(names.PLACEMENT, "topology")
    cluster = cluster_with(held)
    prioritize = Prioritize(cluster.state, cluster.clock, "topology")

    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 10, "n1": 10}
    assert ranked(cluster, held, prioritize) == {"n0": 0, "n1": 10}
    assert ranked(cluster, a_pod("r").asks(1), prioritize) == {"n0": 10, "n1": 10}


def test_all_scores_are_computed_again_after_more_changes_than_are_remembered() -> None:
    cluster = cluster_with()
    prioritize = Prioritize(cluster.state, cluster.clock)
    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 2, "n1": 2}

    cluster.create(a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}).ended("Running"))
    for number in range(SPARE + 10):
        cluster.state.of(NODES).remove(a_node(f"other-{number}", version=10**6))
        cluster.nodes.upsert(a_node(f"other-{number}", a100(0, f"other-{number}"), version=number + 1))

    assert ranked(cluster, a_pod("r").asks(1), prioritize) == {"n0": 2, "n1": 7}


def test_scores_of_the_kind_of_pods_that_was_asked_for_longest_ago_are_dropped_first() -> None:
    cluster = cluster_with()
    prioritize = Prioritize(cluster.state, cluster.clock)
    kinds = [a_pod().asks(count) for count in range(1, KINDS + 2)]
    for kind in kinds[:KINDS]:
        ranked(cluster, kind, prioritize)
    first, second, *_ = prioritize._cached
    ranked(cluster, kinds[0], prioritize)
    ranked(cluster, kinds[KINDS], prioritize)

    assert first in prioritize._cached
    assert second not in prioritize._cached


@pytest.mark.parametrize(
    ("placement", "scores"),
    [("binpack", {"n0": 2, "n1": 5, "n2": 10}), ("spread", {"n0": 7, "n1": 5, "n2": 10})],
)
def test_among_the_nodes_that_are_not_planned_for_a_booked_pod_the_policy_decides(
    placement: str, scores: dict[str, int]
) -> None:
    cluster = Cluster()
    for node in ("n0", "n1", "n2", "n3"):
        cluster.add_node(node, *(a100(index, node) for index in range(4)))
    cluster.create(a_pod("q").asks(1).on("n1", {"main": ("GPU-n1-0",)}).ended("Running"))
    cluster.book(running(cluster, "b-alice", "n2", 1))
    whole = {"count": 4, "topology": "single-node", "places": [{"node": "n3", "count": 4}]}
    end = cluster.clock.now() + timedelta(hours=9)
    cluster.book(a_booking("b-bob", user="bob", start=end - timedelta(hours=1), end=end, **whole))
    pod = cluster.create(a_pod().of("alice").asks(1).with_annotation(names.PLACEMENT, placement))
    args = ExtenderArgs(pod=pod, node_names=("n0", "n1", "n2"))

    found = Prioritize(cluster.state, cluster.clock)(args)

    assert {one.host: one.score for one in found} == scores


def test_the_log_line_names_the_pod_the_policy_the_best_node_and_its_score() -> None:
    cluster = cluster_with(a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}).ended("Running"))
    args = ExtenderArgs(pod=a_pod().asks(1).obj, node_names=("n0", "n1"))

    line = Prioritize(cluster.state, cluster.clock, "spread").answer_logged(args).line

    assert line == {
        "pod": "default/p",
        "uid": "uid-p",
        "placement": "spread",
        "nodes": 2,
        "best": "n0",
        "score": 7,
    }


def test_pods_with_a_hold_are_judged_by_their_own_devices() -> None:
    cluster = Cluster()
    cluster.add_node("n0", a100(0, "n0"), a100(1, "n0"))
    cluster.add_node("n1", a100(0, "n1"), a100(1, "n1"))
    pod = a_pod().asks(1).kept("n0", "GPU-n0-1")
    cluster.create(pod)
    assert set(ranked(cluster, pod)) == {"n0", "n1"}


def test_a_score_is_recomputed_when_only_the_reserved_devices_have_changed(
    reserving: Cluster,
) -> None:
    prioritize = Prioritize(reserving.state, reserving.clock)
    assert ranked(reserving, reserving_pod().of("bob"), prioritize) == {"n0": 4, "n1": 7}

    reserving.clock.advance(9 * 3600)

    assert ranked(reserving, reserving_pod("q").of("bob"), prioritize) == {"n0": 7, "n1": 7}


def test_a_node_that_is_gone_and_comes_back_is_scored_again() -> None:
    cluster = cluster_with()
    prioritize = Prioritize(cluster.state, cluster.clock)
    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 2, "n1": 2}

    cluster.state.of(NODES).remove(cluster.state.nodes["n1"])
    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 2, "n1": 0}

    cluster.add_node("n1")
    assert ranked(cluster, a_pod().asks(1), prioritize) == {"n0": 2, "n1": 2}
