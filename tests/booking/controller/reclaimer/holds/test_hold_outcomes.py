"""What becomes of a hold is counted and reported, and what is known of one ends with it."""

import pytest

from booking.controller.reclaimer.holds.hold_controller import (
    BIND_DEADLINE,
    BOUND_WITHIN,
    SEEN_WITHIN,
)
from cluster import event_reasons, names
from cluster.fake.merging import merged
from cluster.kube.resources import PODS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster


def outcomes(cluster: FakeCluster) -> dict[str, float]:
    """Outcome -> number of holds (``reclaimer_holds_total``)."""
    (family,) = cluster.metrics.holds.collect()
    return {one.labels["outcome"]: one.value for one in family.samples if one.name.endswith("_total")}


def hold_writes(cluster: FakeCluster) -> int:
    return sum(call.verb == "PATCH" and names.HOLD in str(call.body) for call in cluster.kube.calls)


def texts(cluster: FakeCluster, reason: str) -> list[str]:
    """Messages of the Events on Alice's pod that have this reason."""
    return [text for pod, why, text in cluster.events if (pod, why) == ("a", reason)]


def scheduler_says(cluster: FakeCluster, kind: str, message: str) -> None:
    condition = {"type": kind, "status": "False", "reason": "Unschedulable", "message": message}
    raw = cluster.kube.raw(PODS, "a", namespace="default")
    cluster.kube.put(PODS, merged(raw, {"status": {"conditions": [condition]}}))


# --- counted ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_emptied", [False, True], ids=["by others", "by our Binding, which empties it"])
def test_a_hold_whose_pod_is_bound_is_counted_once_as_bound(
    cluster: FakeCluster, *, is_emptied: bool
) -> None:
    cluster.reconcile(2)
    assert outcomes(cluster) == {"written": 1}
    cluster.gone("b3")
    cluster.reconcile()
    cluster.bind("a", 3)
    if is_emptied:
        cluster.annotate("a", names.HOLD, None)
    cluster.reconcile(3)
    assert outcomes(cluster) == {"written": 1, "bound": 1}


def test_a_hold_that_is_not_valid_any_more_is_counted_once_as_dropped(cluster: FakeCluster) -> None:
    cluster.reconcile(2)
    cluster.end_booking()
    cluster.reconcile(3)
    assert outcomes(cluster) == {"written": 1, "dropped": 1}


def test_a_hold_that_the_scheduler_does_not_use_is_counted_once_as_barred(cluster: FakeCluster) -> None:
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.reconcile()
    cluster.after(BOUND_WITHIN)
    cluster.after(1)
    assert outcomes(cluster) == {"written": 1, "barred": 1}


def test_a_step_that_the_api_server_refuses_is_counted_as_a_failure(cluster: FakeCluster) -> None:
    cluster.reconcile(2)
    cluster.end_booking()
    cluster.sync()
    cluster.kube.down = True
    cluster.reclaimer.reconcile()
    cluster.kube.down = False
    (family,) = cluster.metrics.api_failures.collect()
    assert next(one.value for one in family.samples if one.name.endswith("_total")) >= 1
    cluster.reconcile()
    assert cluster.held() is None


# --- reported --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "message", "reported"),
    [
        ("PodScheduled", "no node suits", " The scheduler said: no node suits"),
        ("PodScheduled", "", " The scheduler has said nothing."),
        ("Ready", "no node suits", " The scheduler has said nothing."),
    ],
)
def test_an_event_reports_to_the_owner_the_schedulers_message_about_kept_gpus_that_it_did_not_use(
    cluster: FakeCluster, kind: str, message: str, reported: str
) -> None:
    cluster.reconcile(2)
    scheduler_says(cluster, kind, message)
    cluster.gone("b3")
    cluster.reconcile()
    cluster.after(BOUND_WITHIN)
    (text,) = texts(cluster, event_reasons.NODE_BARRED)
    assert text == (
        "The GPUs kept for this pod on node n0 were free for 10 seconds, but it was not bound to them."
        f" Nothing is kept for it there for a while.{reported}"
    )


def test_events_report_to_the_owner_once_which_gpus_are_kept_and_why_they_no_longer_are(
    cluster: FakeCluster,
) -> None:
    cluster.reconcile(2)
    assert cluster.reasons("a") == [event_reasons.GPUS_KEPT]
    cluster.end_booking()
    cluster.reconcile(3)
    assert texts(cluster, event_reasons.HOLD_DROPPED) == [
        "GPUs are not kept for this pod any more: the pod is not covered by a running booking any more."
    ]


# --- known for a while -----------------------------------------------------------------------------------


def test_a_hold_that_the_watch_does_not_deliver_is_decided_again_after_a_while(cluster: FakeCluster) -> None:
    cluster.sync()
    cluster.reclaimer.reconcile()
    cluster.clock.advance(SEEN_WITHIN - 0.1)
    cluster.reclaimer.reconcile()
    assert hold_writes(cluster) == 1
    cluster.clock.advance(0.1)
    cluster.reclaimer.reconcile()
    assert hold_writes(cluster) == 2, "refused, since the pod has changed"
    assert (cluster.kept().victims, cluster.evicted()) == (("uid-b3",), [])


def test_a_dropped_hold_is_not_acted_on_and_not_dropped_again_while_the_cache_still_shows_it(
    cluster: FakeCluster,
) -> None:
    cluster.reconcile()
    cluster.end_booking()
    cluster.sync()
    cluster.reclaimer.reconcile()
    assert (cluster.held(), hold_writes(cluster)) == (None, 2)
    for _ in range(3):
        cluster.reclaimer.reconcile()
    assert hold_writes(cluster) == 2
    assert cluster.evicted() == []


@pytest.mark.parametrize("lost", ["the lead", "the API server"])
def test_the_time_for_the_bind_starts_again_after_this_process_could_not_act(
    cluster: FakeCluster, lost: str
) -> None:
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.reconcile()
    cluster.after(BOUND_WITHIN - 1)
    cluster.leads = lost != "the lead"
    cluster.unready_reason = "the API server is away" if cluster.leads else None
    cluster.after(1)
    cluster.leads, cluster.unready_reason = True, None
    cluster.after(1)
    cluster.after(BIND_DEADLINE)
    cluster.after(BOUND_WITHIN - 0.1)
    assert cluster.held() is not None
    cluster.after(0.1)
    assert cluster.held() is None
