"""L2: a pod that is booked is not taken away before its booking ends."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from cluster import event_reasons, names
from cluster.kube.resources import BOOKINGS, PODS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A6000, EPOCH, a6000
from tests.laws.breaking import breaks
from tests.laws.changes import Maker
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher

Evict = Callable[[str], None]
SOON = EPOCH + timedelta(minutes=5)


@pytest.fixture
def booked(cluster: FakeCluster, laws: LawWatcher) -> FakeCluster:
    """Alice's pod ``a`` has device 0, and a booking for one."""
    assert laws
    cluster.book(end=SOON)
    cluster.waiting("a")
    cluster.bind("a", 0)
    return cluster


def mark_to_end(cluster: FakeCluster, name: str) -> None:
    """What we write on a pod before we end it with its booking."""
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": event_reasons.BOOKING_ENDED}
    cluster.kube.patch(
        PODS, name, {"status": {"conditions": [condition]}}, namespace="default", subresource="status"
    )
    cluster.kube.delete(PODS, name, namespace="default")


def decide(cluster: FakeCluster, *uids: str) -> None:
    cluster.kube.patch(BOOKINGS, "b-1", {"status": {"ending": list(uids)}}, subresource="status")


@pytest.mark.usefixtures("booked")
def test_an_eviction_of_a_booked_pod_breaks_it(laws: LawWatcher, evict: Evict) -> None:
    with breaks(laws, "L2", "default/a is evicted, though b-1 covers it until 2026-11-23 09:05:00 UTC"):
        evict("a")


def order(cluster: FakeCluster, name: str, text: str) -> None:
    """What the booking server writes on a pod that an administrator wants gone."""
    cluster.annotate(name, names.EVICT, text)


ORDER = '{"by":"root","reason":"the rack is on fire","at":"2026-11-23T09:00:00Z"}'


def test_a_booked_pod_that_an_administrator_has_ordered_to_go_may_be_evicted(
    booked: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    order(booked, "a", ORDER)
    evict("a")
    laws.check()


@pytest.mark.parametrize("text", ["", "{}", "[]", "now", '{"by":"root"}', '{"by":"root","reason":""}'])
def test_an_order_without_a_name_or_a_reason_does_not_count(
    booked: FakeCluster, laws: LawWatcher, evict: Evict, text: str
) -> None:
    order(booked, "a", text)
    with breaks(laws, "L2", "default/a is evicted, though b-1 covers it until 2026-11-23 09:05:00 UTC"):
        evict("a")


def test_an_order_does_not_allow_ending_a_pod_as_if_its_booking_were_over(
    booked: FakeCluster, laws: LawWatcher
) -> None:
    order(booked, "a", ORDER)
    with breaks(laws, "L2", "default/a is ended, though b-1 covers it"):
        mark_to_end(booked, "a")


LONG_AGO, LATER = "1900-01-01T08:00:00Z", "2026-11-23T10:00:00Z"
NOW = "2026-11-23T09:00:00Z"


def granted(cluster: FakeCluster, until: str, requested: str) -> None:
    """A pod of bob's with MAIA's annotation, which its tools want ended."""
    cluster.opportunist("late", 1)
    cluster.annotate("late", names.TERMINATE_AT, until)
    cluster.annotate("late", names.END_REQUESTED, requested)


def test_a_pod_past_maias_grant_may_be_ended_at_the_request_of_its_tools(
    booked: FakeCluster, laws: LawWatcher
) -> None:
    granted(booked, LONG_AGO, NOW)
    mark_to_end(booked, "late")
    laws.check()


@pytest.mark.parametrize(
    ("until", "requested"), [(LATER, NOW), (LONG_AGO, "soon"), ("", NOW), (LONG_AGO, LATER)]
)
def test_no_pod_is_ended_within_the_grant_or_without_a_request(
    booked: FakeCluster, laws: LawWatcher, until: str, requested: str
) -> None:
    granted(booked, until, requested)
    with breaks(laws, "L2", "default/late is ended, though no booking that it ends with is over"):
        mark_to_end(booked, "late")


def test_a_request_of_maias_tools_ends_no_booked_pod(booked: FakeCluster, laws: LawWatcher) -> None:
    booked.annotate("a", names.TERMINATE_AT, LONG_AGO)
    booked.annotate("a", names.END_REQUESTED, NOW)
    with breaks(laws, "L2", "default/a is ended, though b-1 covers it"):
        mark_to_end(booked, "a")


def test_users_who_delete_their_own_booked_pods_break_nothing(booked: FakeCluster, laws: LawWatcher) -> None:
    booked.kube.delete(PODS, "a", namespace="default")
    laws.check()


def played_by(cluster: FakeCluster, name: str, *, is_ours: bool) -> LawWatcher:
    """Watches a cluster in which this part writes, and knows the writer."""
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.book(end=SOON)
    maker = Maker(name=name, is_ours=is_ours)
    return watch_memory(cluster.kube, cluster.clock, maker=lambda: maker)


def test_a_part_of_ours_that_deletes_a_booked_pod_as_its_user_would_breaks_it(cluster: FakeCluster) -> None:
    laws = played_by(cluster, "controller-0", is_ours=True)
    with breaks(laws, "L2", "default/a is deleted by controller-0, though b-1 covers it until 2026-11-23 09"):
        cluster.kube.delete(PODS, "a", namespace="default")


def test_a_booked_pod_that_a_part_of_ours_lets_vanish_breaks_it(cluster: FakeCluster) -> None:
    laws = played_by(cluster, "agent n0", is_ours=True)
    with breaks(laws, "L2", "default/a is deleted by agent n0, though b-1 covers it"):
        cluster.gone("a")


def test_a_deletion_by_a_component_of_kubernetes_is_not_ours(cluster: FakeCluster) -> None:
    laws = played_by(cluster, "pod garbage collector", is_ours=False)
    cluster.kube.delete(PODS, "a", namespace="default")
    laws.check()


def test_a_pod_beyond_the_bookings_count_is_not_booked(
    booked: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    booked.waiting("more")
    booked.bind("more", 1)
    with laws.expecting("L3"):  # nobody needs its device, but that is another law
        evict("more")
    laws.check()


def test_a_pod_of_another_user_or_model_is_not_booked(
    cluster: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    cluster.add_node("n1", a6000(0, "n1"))
    cluster.book(model=A6000)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.opportunist("b", 1)
    with laws.expecting("L3"):
        evict("a")
        evict("b")
    laws.check()


def test_a_pod_may_be_ended_when_that_was_decided_after_its_booking(
    booked: FakeCluster, laws: LawWatcher
) -> None:
    booked.clock.advance(301)
    booked.renew()
    decide(booked, "uid-a")
    mark_to_end(booked, "a")
    laws.check()


def test_a_pod_that_is_ended_while_its_booking_runs_breaks_it(booked: FakeCluster, laws: LawWatcher) -> None:
    decide(booked, "uid-a")
    with breaks(laws, "L2", "default/a is ended, though b-1 covers it"):
        mark_to_end(booked, "a")


def test_a_pod_that_another_booking_covers_is_not_ended(booked: FakeCluster, laws: LawWatcher) -> None:
    booked.book("b-2", end=EPOCH + timedelta(days=1))
    booked.clock.advance(301)
    booked.renew()
    decide(booked, "uid-a")
    with breaks(laws, "L2", "default/a is ended, though b-2 covers it"):
        mark_to_end(booked, "a")


def test_a_pod_about_which_nothing_was_decided_is_not_ended(booked: FakeCluster, laws: LawWatcher) -> None:
    booked.clock.advance(301)
    booked.renew()
    decide(booked)
    with breaks(laws, "L2", "default/a is ended, though no booking that it ends with is over"):
        mark_to_end(booked, "a")


@pytest.mark.parametrize(("seconds", "innocent"), [(4.0, True), (6.0, False)])
def test_an_eviction_that_was_decided_before_the_booking_came_is_innocent(
    cluster: FakeCluster, evict: Evict, *, seconds: float, innocent: bool
) -> None:
    laws = watch_memory(cluster.kube, cluster.clock, leeway=5.0)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.clock.advance(60)
    cluster.renew()
    cluster.book()
    cluster.clock.advance(seconds)
    with laws.expecting("L3", *([] if innocent else ["L2"])):
        evict("a")
    laws.check()


def test_after_an_outage_what_was_decided_before_it_is_innocent(cluster: FakeCluster, evict: Evict) -> None:
    laws = watch_memory(cluster.kube, cluster.clock, leeway=5.0)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.clock.advance(10)
    laws.fault("the API server stops")
    cluster.book()
    cluster.clock.advance(50)
    laws.fault("the API server goes on")
    cluster.renew()
    with laws.expecting("L3"):
        evict("a")
    laws.check()
