"""Booked pods and those that stay indefinitely leave alone what is planned for others; others may have it."""

from datetime import timedelta

import pytest

from cluster.decide import predicates
from cluster.objects.bookings import Booking
from extender.verbs.prioritize import Prioritize
from extender.wire import ExtenderArgs
from tests.extender.cluster import Cluster
from tests.fakes.objects import A6000, a100, a6000, a_booking, a_pod

HOUR = timedelta(hours=1)


@pytest.fixture
def cluster() -> Cluster:
    """Alice's booking runs, planned on n1; all of n0 is planned for bob in two hours."""
    made = Cluster()
    made.add_node("n0", a100(0, "n0"), a100(1, "n0"))
    made.add_node("n1", a100(0, "n1"))
    made.book(booked(made, "b-alice", "n1", start=0))
    made.book(booked(made, "b-bob", "n0", start=2, user="bob", count=2, topology="single-node"))
    return made


def booked(cluster: Cluster, name: str, node: str, *, start: int, count: int = 1, **more: object) -> Booking:
    now = cluster.clock.now()
    return a_booking(
        name,
        count=count,
        start=now + start * HOUR,
        end=now + 9 * HOUR,
        places=[{"node": node, "count": count}],
        **more,
    )


def test_a_booked_pod_is_kept_from_a_node_that_is_planned_for_another_booking(cluster: Cluster) -> None:
    result = cluster.ask(cluster.create(a_pod().of("alice").asks(1)), "n0", "n1")
    assert result.node_names == ["n1"]
    assert result.failed_and_unresolvable_nodes == {"n0": predicates.BOOKED_BY_OTHERS.with_code}


def test_the_message_is_the_same_each_time(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().of("alice").asks(1))
    first = cluster.ask(pod, "n0")
    cluster.clock.advance(30)
    cluster.book(booked(cluster, "b-late", "n0", start=5, user="carol"))
    assert cluster.ask(pod, "n0") == first


def test_a_pod_that_may_be_evicted_may_go_anywhere(cluster: Cluster) -> None:
    assert cluster.ask(cluster.create(a_pod().of("carol").asks(1)), "n0", "n1").node_names == ["n0", "n1"]


def test_bind_checks_the_plan_again(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().of("alice").asks(1))
    assert predicates.BOOKED_BY_OTHERS in cluster.bind_to(pod, "n0")
    assert cluster.bindings() == []
    assert cluster.bind_to(pod, "n1") == ""


def test_devices_that_are_kept_for_a_pod_are_not_asked_about_again(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().of("alice").asks(1).kept("n0", "GPU-n0-0"))
    assert cluster.ask(pod, "n0", "n1").node_names == ["n0"]


def test_the_planned_node_scores_highest(cluster: Cluster) -> None:
    cluster.add_node("n2", a100(0, "n2"))
    pod = cluster.create(a_pod().of("alice").asks(1))
    args = ExtenderArgs(pod=pod, node_names=("n2", "n1"))
    assert cluster.ask(pod, "n2", "n1").node_names == ["n2", "n1"]
    ranked = Prioritize(cluster.state, cluster.clock)(args)
    assert {one.host: one.score for one in ranked} == {"n2": 9, "n1": 10}


# --- pods that are never evicted ---------------------------------------------------------------------------
def test_l5_a_pod_that_stays_indefinitely_takes_nothing_that_is_planned(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(1).of_a_daemon_set())
    refused = cluster.ask(pod, "n0", "n1")
    assert refused.failed_and_unresolvable_nodes == dict.fromkeys(
        ("n0", "n1"), predicates.BOOKED_BY_OTHERS.with_code
    )
    assert predicates.BOOKED_BY_OTHERS in cluster.bind_to(pod, "n0")
    cluster.add_node("n2", a100(0, "n2"))
    assert cluster.ask(pod, "n0", "n1", "n2").node_names == ["n2"]
    assert cluster.bind_to(pod, "n2") == ""


def test_l5_single_devices_are_guaranteed_as_well() -> None:
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.add_node(name, a100(0, name))
    cluster.book(booked(cluster, "b-bob", "n0", start=2, user="bob"))
    first = cluster.create(a_pod("first").asks(1).of_a_daemon_set())
    second = cluster.create(a_pod("second").asks(1).of_a_daemon_set())
    # The booking has not begun: its place may still be the other one.
    assert cluster.ask(first, "n0", "n1").node_names == ["n0", "n1"]
    assert cluster.bind_to(first, "n0") == ""
    assert not cluster.ask(second, "n0", "n1").node_names


def test_a_pod_that_stays_indefinitely_may_have_devices_of_another_model(cluster: Cluster) -> None:
    cluster.add_node("n2", a6000(0, "n2"))
    pod = cluster.create(a_pod().asks(1).wants(A6000).of_a_daemon_set())
    assert cluster.ask(pod, "n0", "n1", "n2").node_names == ["n2"]


def test_a_pod_that_stays_indefinitely_may_go_anywhere_while_nothing_is_booked() -> None:
    cluster = Cluster()
    cluster.add_node("n0", a100(0, "n0"))
    assert cluster.ask(cluster.create(a_pod().asks(1).of_a_daemon_set()), "n0").node_names == ["n0"]
