"""How victims leave: each notified of its own time, and gone when that is over or its work is saved."""

from datetime import datetime, timedelta

import pytest

from booking.eviction_settings import EvictionSettings
from booking.reclaimer.evictor import DECIDED_WITHIN
from cluster import names
from cluster.kube.errors import Refusal, Request, Unreachable, refused
from tests.booking.reclaimer.scene import Scene

LOST = Unreachable(Request("PATCH", "/"), "connection refused")


def scene_of(terms: EvictionSettings | None = None, *, gpus: int = 1, **notices: str) -> Scene:
    """Alice's booked pod waits; bob's four have all A100s, ``b3`` has worked least. Notices: requested."""
    scene = Scene(terms=terms)
    scene.add_node()
    scene.fill()
    scene.book(count=gpus)
    scene.waiting("a", gpus)
    for name, notice in notices.items():
        scene.annotate(name, names.REQUESTED_NOTICE, notice)
    return scene


def said(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


# --- what was just written is acted on at once ---------------------------------------------------------


def test_a_victim_leaves_in_the_very_pass_in_which_the_hold_was_written_if_our_watch_is_quick() -> None:
    scene = scene_of()
    scene.leaving.meanwhile = scene.sync
    scene.sync()
    scene.reclaimer.reconcile()
    assert scene.evicted() == ["b3"]
    assert "default/a" in (scene.annotation("b3", names.NOTICE) or "")
    assert scene.reasons("b3") == [names.EVICTION_NOTICE]


def test_while_our_watch_has_not_brought_the_hold_nobody_leaves_and_then_at_once() -> None:
    scene = scene_of()
    scene.sync()
    scene.reclaimer.reconcile()
    scene.reclaimer.reconcile()
    assert (scene.held() is not None, scene.evicted()) == (True, [])
    scene.reconcile()
    assert scene.evicted() == ["b3"]


def test_law_l2_a_pod_that_is_booked_while_the_hold_is_written_stays() -> None:
    scene = scene_of()

    def booked_meanwhile() -> None:
        scene.book("b-2", user="bob", count=4)
        scene.sync()

    scene.leaving.meanwhile = booked_meanwhile
    scene.reconcile(4)
    assert scene.evicted() == []
    assert scene.annotation("b3", names.NOTICE) is None


def test_a_controller_that_lost_the_lead_while_the_hold_was_written_evicts_nobody() -> None:
    scene = scene_of()

    def deposed() -> None:
        scene.sync()
        scene.leads = False

    scene.leaving.meanwhile = deposed
    scene.sync()
    scene.reclaimer.reconcile()
    assert scene.evicted() == []


def test_when_getting_ready_took_long_the_booked_pod_is_read_again() -> None:
    scene = scene_of()

    def slowly() -> None:
        scene.clock.advance(DECIDED_WITHIN + 1)
        scene.renew()
        scene.sync()
        scene.gone("a")

    scene.leaving.meanwhile = slowly
    scene.sync()
    scene.reclaimer.reconcile()
    assert scene.evicted() == []


def test_free_devices_are_waited_for_before_anybody_is_even_notified() -> None:
    scene = scene_of(gpus=2)
    scene.gone("b0")
    scene.leaving.meanwhile = scene.sync
    scene.reconcile()
    assert scene.kept().devices == ("GPU-n0-0", "GPU-n0-3")
    assert (scene.evicted(), scene.reasons("b3")) == ([], [])


def decisions(scene: Scene) -> list[float]:
    """How many evictions' times were measured, and their sum."""
    (family,) = scene.metrics.decisions.collect()
    of = {sample.name.rpartition("_")[2]: sample.value for sample in family.samples}
    return [of["count"], of["sum"]]


def test_how_long_a_decision_takes_is_measured_from_the_change_that_made_it_needed() -> None:
    scene = scene_of()
    scene.sync()
    scene.clock.advance(0.25)
    scene.leaving.meanwhile = scene.sync
    scene.reclaimer.reconcile()
    assert scene.evicted() == ["b3"]
    assert decisions(scene) == [1, 0.25]


def test_a_hold_that_is_refused_since_somebody_wrote_to_the_new_pod_counts_from_the_first_try() -> None:
    scene = scene_of()
    scene.sync()
    scene.annotate("a", "note", "the scheduler has looked at it")
    scene.reclaimer.reconcile()
    assert scene.held() is None
    scene.clock.advance(0.125)
    scene.sync()
    scene.leaving.meanwhile = scene.sync
    scene.reclaimer.reconcile()
    assert scene.evicted() == ["b3"]
    assert decisions(scene) == [1, 0.125]


def test_a_notice_is_not_counted_as_time_that_a_decision_takes() -> None:
    scene = scene_of(EvictionSettings(notice_seconds=5))
    scene.reconcile(2)
    scene.after(5)
    assert scene.evicted() == ["b3"]
    assert decisions(scene) == [0, 0]


# --- notice --------------------------------------------------------------------------------------------


def test_two_victims_of_one_hold_have_their_own_times() -> None:
    scene = scene_of(EvictionSettings(notice_seconds=10), gpus=2, b2="PT60S")
    scene.reconcile(2)
    assert "09:00:10Z" in (scene.annotation("b3", names.NOTICE) or "")
    assert "09:01:00Z" in (scene.annotation("b2", names.NOTICE) or "")
    scene.after(10)
    assert scene.evicted() == ["b3"]
    scene.after(49)
    assert scene.evicted() == ["b3"]
    scene.after(1)
    assert scene.evicted() == ["b3", "b2"]


@pytest.mark.parametrize("notice", ["never", "-PT5M", "P1000Y", ""])
def test_a_request_that_cannot_be_read_is_ignored(notice: str) -> None:
    scene = scene_of(b3=notice)
    scene.reconcile(2)
    assert scene.evicted() == ["b3"]


def test_a_pod_may_request_notice_up_to_the_limit() -> None:
    scene = scene_of(EvictionSettings(longest_notice_seconds=30), b3="PT1H")
    scene.reconcile(2)
    assert "09:00:30Z" in (scene.annotation("b3", names.NOTICE) or "")
    scene.after(29)
    assert scene.evicted() == []
    scene.after(1)
    assert scene.evicted() == ["b3"]


def test_the_notice_that_was_given_is_kept_though_the_pod_requests_another_later() -> None:
    scene = scene_of(b3="PT20S")
    scene.reconcile(2)
    scene.annotate("b3", names.REQUESTED_NOTICE, "PT9M")
    scene.after(20)
    assert scene.evicted() == ["b3"]


def test_a_restarted_process_keeps_the_notice_that_was_given() -> None:
    scene = scene_of(EvictionSettings(notice_seconds=60))
    scene.reconcile(2)
    scene.after(40)
    scene.restart()
    scene.after(0)
    scene.restart()
    scene.after(19)
    assert scene.evicted() == []
    scene.after(1)
    assert scene.evicted() == ["b3"]
    assert scene.reasons("b3") == [names.EVICTION_NOTICE]


def test_a_victim_that_could_not_be_notified_at_once_has_its_whole_time_from_then() -> None:
    scene = scene_of(EvictionSettings(notice_seconds=30))
    scene.sync()
    scene.kube.before("PATCH", lambda: scene.kube.fail("PATCH", LOST))  # the hold is written, the notice not
    scene.reclaimer.reconcile()
    assert scene.annotation("b3", names.NOTICE) is None
    scene.after(20)
    assert "09:00:50Z" in (scene.annotation("b3", names.NOTICE) or "")
    scene.after(29)
    assert scene.evicted() == []
    scene.after(1)
    assert scene.evicted() == ["b3"]


def test_a_notice_of_an_earlier_hold_shortens_no_later_one() -> None:
    scene = scene_of(EvictionSettings(notice_seconds=30))
    scene.reconcile(2)
    old = scene.annotation("b3", names.NOTICE)
    scene.end_booking()
    scene.reconcile(2)
    scene.after(60)
    scene.annotate("b3", names.NOTICE, old)
    scene.book("b-9")
    scene.reconcile(3)
    assert "09:01:30Z" in (scene.annotation("b3", names.NOTICE) or "")
    scene.after(29)
    assert scene.evicted() == []


# --- its work is saved ---------------------------------------------------------------------------------


def test_a_pod_that_has_saved_its_work_leaves_at_once() -> None:
    scene = scene_of(EvictionSettings(notice_seconds=600))
    scene.reconcile(2)
    scene.clock.advance(12)
    scene.annotate("b3", names.CHECKPOINT_DONE, said(scene.clock.now()))
    scene.after(0)
    assert scene.evicted() == ["b3"]


def test_one_that_has_saved_leaves_and_the_other_victim_keeps_its_time() -> None:
    scene = scene_of(EvictionSettings(notice_seconds=60), gpus=2)
    scene.reconcile(2)
    scene.annotate("b2", names.CHECKPOINT_DONE, said(scene.clock.now()))
    scene.after(1)
    assert scene.evicted() == ["b2"]
    scene.after(59)
    assert scene.evicted() == ["b2", "b3"]


@pytest.mark.parametrize("offset", [timedelta(seconds=-1), timedelta(minutes=2)])
def test_what_was_saved_before_the_notice_or_will_be_counts_for_nothing(offset: timedelta) -> None:
    scene = scene_of(EvictionSettings(notice_seconds=60))
    scene.annotate("b3", names.CHECKPOINT_DONE, said(scene.clock.now() + offset))
    scene.reconcile(3)
    assert scene.kept().victims
    assert scene.evicted() == []


# --- budgets and refusals ------------------------------------------------------------------------------


def test_a_protected_pod_that_was_given_no_time_gets_no_event_of_it() -> None:
    scene = scene_of()
    scene.leaving.protected.add("b3")
    scene.reconcile(4)
    assert scene.evicted() == ["b2"]
    assert scene.reasons("b3") == []


def test_a_refusal_in_the_very_pass_of_the_hold_counts_like_any() -> None:
    scene = scene_of()
    refusal = Refusal(code=500, message="this pod has more than one PodDisruptionBudget")
    scene.leaving.failing += [refused(Request("POST", "/"), refusal)] * 3
    scene.leaving.meanwhile = scene.sync
    scene.reconcile()
    scene.after(1)
    scene.after(1)
    scene.reconcile(2)
    assert scene.evicted() == ["b2"]
