"""How victims leave: each has its own notice, and is evicted when that is over or its work is saved."""

from datetime import datetime

from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.kube.errors import Refusal, Request, Unreachable, refused
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster

LOST = Unreachable(Request("PATCH", "/"), "connection refused")


def cluster_with(terms: EvictionSettings | None = None, *, gpus: int = 1, **notices: str) -> FakeCluster:
    """Alice's booked pod waits; bob's four have all A100s, ``b3`` has worked least. Notices: requested."""
    cluster = FakeCluster(terms=terms)
    cluster.add_node()
    cluster.fill()
    cluster.book(count=gpus)
    cluster.waiting("a", gpus)
    for name, notice in notices.items():
        cluster.annotate(name, names.REQUESTED_NOTICE, notice)
    return cluster


def timestamp(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


# --- what was just written is acted on at once ---------------------------------------------------------


def test_a_victim_is_evicted_in_the_same_pass_as_the_hold_if_the_watch_is_quick() -> None:
    cluster = cluster_with()
    cluster.evictor.meanwhile = cluster.sync
    cluster.sync()
    cluster.reclaimer.reconcile()
    assert cluster.evicted() == ["b3"]
    assert "default/a" in (cluster.annotation("b3", names.NOTICE) or "")
    assert cluster.reasons("b3") == [event_reasons.EVICTION_NOTICE]


def test_no_pod_is_evicted_until_the_watch_shows_the_hold_and_then_at_once() -> None:
    cluster = cluster_with()
    cluster.sync()
    cluster.reclaimer.reconcile()
    cluster.reclaimer.reconcile()
    assert (cluster.held() is not None, cluster.evicted()) == (True, [])
    cluster.reconcile()
    assert cluster.evicted() == ["b3"]


def test_law_l2_a_pod_that_is_booked_while_the_hold_is_written_stays() -> None:
    cluster = cluster_with()

    def booked_meanwhile() -> None:
        cluster.book("b-2", user="bob", count=4)
        cluster.sync()

    cluster.evictor.meanwhile = booked_meanwhile
    cluster.reconcile(4)
    assert cluster.evicted() == []
    assert cluster.annotation("b3", names.NOTICE) is None


def test_no_victim_is_notified_before_the_free_devices_have_stayed_free() -> None:
    cluster = cluster_with(gpus=2)
    cluster.gone("b0")
    cluster.evictor.meanwhile = cluster.sync
    cluster.reconcile()
    assert cluster.kept().devices == ("GPU-n0-0", "GPU-n0-3")
    assert (cluster.evicted(), cluster.reasons("b3")) == ([], [])


def decisions(cluster: FakeCluster) -> list[float]:
    """Number and sum, in seconds, of the measured times (``reclaimer_decision_seconds``)."""
    (family,) = cluster.metrics.decisions.collect()
    of = {sample.name.rpartition("_")[2]: sample.value for sample in family.samples}
    return [of["count"], of["sum"]]


def test_decision_time_is_measured_from_the_change_that_required_it() -> None:
    cluster = cluster_with()
    cluster.sync()
    cluster.clock.advance(0.25)
    cluster.evictor.meanwhile = cluster.sync
    cluster.reclaimer.reconcile()
    assert cluster.evicted() == ["b3"]
    assert decisions(cluster) == [1, 0.25]


def test_decision_time_counts_from_the_first_try_when_the_hold_met_a_conflict() -> None:
    cluster = cluster_with()
    cluster.sync()
    cluster.annotate("a", "note", "the scheduler has looked at it")
    cluster.reclaimer.reconcile()
    assert cluster.held() is None
    cluster.clock.advance(0.125)
    cluster.sync()
    cluster.evictor.meanwhile = cluster.sync
    cluster.reclaimer.reconcile()
    assert cluster.evicted() == ["b3"]
    assert decisions(cluster) == [1, 0.125]


def test_a_notice_does_not_count_as_decision_time() -> None:
    cluster = cluster_with(EvictionSettings(notice_seconds=5))
    cluster.reconcile(2)
    cluster.after(5)
    assert cluster.evicted() == ["b3"]
    assert decisions(cluster) == [0, 0]


# --- notice --------------------------------------------------------------------------------------------


def test_a_victim_notified_late_has_its_whole_time_from_then_on() -> None:
    cluster = cluster_with(EvictionSettings(notice_seconds=30))
    cluster.sync()
    cluster.kube.before(
        "PATCH", lambda: cluster.kube.fail("PATCH", LOST)
    )  # the hold is written, the notice not
    cluster.reclaimer.reconcile()
    assert cluster.annotation("b3", names.NOTICE) is None
    cluster.after(20)
    assert "09:00:50Z" in (cluster.annotation("b3", names.NOTICE) or "")
    cluster.after(29)
    assert cluster.evicted() == []
    cluster.after(1)
    assert cluster.evicted() == ["b3"]


def test_a_notice_of_an_earlier_hold_does_not_shorten_a_later_one() -> None:
    cluster = cluster_with(EvictionSettings(notice_seconds=30))
    cluster.reconcile(2)
    old = cluster.annotation("b3", names.NOTICE)
    cluster.end_booking()
    cluster.reconcile(2)
    cluster.after(60)
    cluster.annotate("b3", names.NOTICE, old)
    cluster.book("b-9")
    cluster.reconcile(3)
    assert "09:01:30Z" in (cluster.annotation("b3", names.NOTICE) or "")
    cluster.after(29)
    assert cluster.evicted() == []


# --- its work is saved ---------------------------------------------------------------------------------


def test_a_victim_that_has_saved_leaves_and_the_other_keeps_its_time() -> None:
    cluster = cluster_with(EvictionSettings(notice_seconds=60), gpus=2)
    cluster.reconcile(2)
    cluster.annotate("b2", names.CHECKPOINT_DONE, timestamp(cluster.clock.now()))
    cluster.after(1)
    assert cluster.evicted() == ["b2"]
    cluster.after(59)
    assert cluster.evicted() == ["b2", "b3"]


# --- budgets and refusals ------------------------------------------------------------------------------


def test_a_protected_pod_without_notice_time_gets_no_event() -> None:
    cluster = cluster_with()
    cluster.evictor.protected.add("b3")
    cluster.reconcile(4)
    assert cluster.evicted() == ["b2"]
    assert cluster.reasons("b3") == []


def test_a_refusal_in_the_same_pass_as_the_hold_counts_like_any_other() -> None:
    cluster = cluster_with()
    refusal = Refusal(code=500, message="this pod has more than one PodDisruptionBudget")
    cluster.evictor.failing += [refused(Request("POST", "/"), refusal)] * 3
    cluster.evictor.meanwhile = cluster.sync
    cluster.reconcile()
    cluster.after(1)
    cluster.after(1)
    cluster.reconcile(2)
    assert cluster.evicted() == ["b2"]


DENIED = refused(Request("POST", "/"), Refusal(code=429, message="it is migrated"))


def test_a_victim_is_notified_only_if_its_eviction_would_be_accepted() -> None:
    cluster = cluster_with(EvictionSettings(notice_seconds=30))
    cluster.evictor.forbidden["b3"] = DENIED
    for _ in range(8):
        cluster.after(1)
    assert cluster.kept().victims == ("uid-b2",)
    assert cluster.reasons("b3") == []
    assert any(
        "it is migrated" in message
        for _, reason, message in cluster.events
        if reason == event_reasons.HOLD_DROPPED
    )


def test_a_notice_that_a_refusal_ends_is_withdrawn_with_the_reason() -> None:
    cluster = cluster_with(EvictionSettings(notice_seconds=5))
    cluster.reconcile(2)
    cluster.evictor.forbidden["b3"] = DENIED
    for _ in range(9):
        cluster.after(1)
    assert cluster.annotation("b3", names.NOTICE) is None
    (text,) = [
        message
        for pod, reason, message in cluster.events
        if (pod, reason) == ("b3", event_reasons.EVICTION_WITHDRAWN)
    ]
    assert "it is migrated" in text


def test_a_policy_that_refuses_the_notice_refuses_the_eviction() -> None:
    cluster = cluster_with(EvictionSettings(notice_seconds=5))

    def deny(_change: object = None) -> None:
        cluster.kube.calm()
        cluster.kube.fail("PATCH", DENIED)

    cluster.kube.on_change(deny)
    cluster.reconcile()  # the hold is written, and the write after it is refused
    for _ in range(2):
        assert cluster.kept().victims == ("uid-b3",)
        deny()
        cluster.after(1)
        cluster.kube.calm()
    assert "it is migrated" in next(
        text for _, why, text in cluster.events if why == event_reasons.HOLD_DROPPED
    )
    cluster.reconcile()
    assert cluster.kept().victims == ("uid-b2",)


def test_no_victim_leaves_early_for_a_hold_whose_other_victim_a_budget_protects() -> None:
    cluster = cluster_with(EvictionSettings(budget_override_seconds=60), gpus=4)
    cluster.evictor.protected.add("b2")
    for _ in range(55):
        cluster.after(1)
    assert cluster.evicted() == []
    for _ in range(10):
        cluster.after(1)
    assert sorted(cluster.evicted()) == ["b0", "b1", "b2", "b3"]
    assert [name for name, why in cluster.evictor.why.items() if why.overrides_budget] == ["b2"]
