"""From a plan to a bound pod: each step, each guard, and a restart between any two of them."""

import pytest

from booking.eviction_settings import EvictionSettings
from booking.reclaimer.evictor import DECIDED_WITHIN, DryRunError
from booking.reclaimer.holds.hold_controller import BIND_DEADLINE, BOUND_WITHIN
from booking.reclaimer.holds.unevictable import SPARED_FOR
from cluster import names
from cluster.kube.errors import Refusal, Request, Unreachable, refused
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from tests.booking.reclaimer.scene import Scene
from tests.fakes.objects import a_pod

DOWN = Unreachable(Request("DELETE", "/"), "connection refused")


@pytest.fixture
def scene() -> Scene:
    """Alice's booked pod waits; bob's four have all A100s, ``b3`` has worked least."""
    scene = Scene()
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    return scene


def test_the_pod_that_loses_least_is_held_notified_and_evicted(scene: Scene) -> None:
    scene.reconcile()
    held = scene.kept()
    assert (held.node, held.devices, held.victims) == ("n0", ("GPU-n0-3",), ("uid-b3",))
    assert held.at == scene.clock.now()
    assert scene.evicted() == []
    scene.reconcile()
    assert scene.evicted() == ["b3"]
    assert "default/a" in (scene.annotation("b3", names.NOTICE) or "")
    assert scene.reasons("b3") == [names.EVICTION_NOTICE]
    assert scene.leaving.wanted == {"uid-b3"}


def test_nothing_is_evicted_before_the_hold_is_seen_in_our_own_cache(scene: Scene) -> None:
    scene.sync()
    scene.reclaimer.reconcile()
    scene.reclaimer.reconcile()
    assert scene.held() is not None
    assert scene.evicted() == []


def test_a_hold_is_written_once_though_the_cache_lags(scene: Scene) -> None:
    scene.sync()
    for _ in range(3):
        scene.reclaimer.reconcile()
    patches = [c for c in scene.kube.calls if c.verb == "PATCH" and names.HOLD in str(c.body)]
    assert len(patches) == 1


def test_a_bound_pod_keeps_no_hold(scene: Scene) -> None:
    scene.reconcile(2)
    scene.gone("b3")
    scene.reconcile()
    scene.bind("a", 3)
    scene.reconcile()
    assert scene.held() is None
    assert scene.evicted() == ["b3"]


def test_a_hold_is_kept_as_long_as_its_victim_takes_to_leave(scene: Scene) -> None:
    scene.reconcile(2)
    scene.after(BOUND_WITHIN + 1)
    scene.after(BOUND_WITHIN + 1)
    assert scene.held() is not None
    assert scene.evicted() == ["b3"]


def test_the_victim_gets_its_notice_before_it_is_evicted() -> None:
    scene = Scene(terms=EvictionSettings(notice_seconds=30))
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.reconcile(2)
    assert "09:00:30" in (scene.annotation("b3", names.NOTICE) or "")
    scene.after(29)
    assert scene.evicted() == []
    scene.after(1)
    assert scene.evicted() == ["b3"]
    assert scene.reasons("b3") == [names.EVICTION_NOTICE]


def test_a_free_device_of_a_hold_must_stay_free_for_the_bind_deadline(scene: Scene) -> None:
    scene.book(count=2)
    scene.create(a_pod("a").of("alice").asks(2))
    scene.gone("b0")
    scene.reconcile(2)
    assert scene.kept().devices == ("GPU-n0-0", "GPU-n0-3")
    assert scene.evicted() == []
    scene.after(BIND_DEADLINE - 0.1)
    assert scene.evicted() == []
    scene.after(0.1)
    assert scene.evicted() == ["b3"]


def test_a_free_device_must_stay_free_also_when_the_agent_was_starting_at_first(scene: Scene) -> None:
    scene.book(count=2)
    scene.create(a_pod("a").of("alice").asks(2))
    scene.gone("b0")
    scene.reconcile()
    scene.stop_agent("n0")
    scene.reconcile()
    scene.start_agent("n0")
    scene.reconcile()
    assert scene.evicted() == []
    scene.after(BIND_DEADLINE)
    assert scene.evicted() == ["b3"]


def test_a_bind_that_took_a_free_device_of_a_hold_has_it(scene: Scene) -> None:
    scene.book(count=2)
    scene.create(a_pod("a").of("alice").asks(2))
    scene.gone("b0")
    scene.reconcile(2)
    scene.opportunist("late", 0, minutes=0)
    scene.reconcile()
    assert scene.held() is None
    assert scene.evicted() == []
    assert names.HOLD_DROPPED in scene.reasons("a")
    scene.reconcile()
    assert set(scene.kept().victims) == {"uid-late", "uid-b3"}


def test_a_victim_that_is_booked_by_now_stays(scene: Scene) -> None:
    scene.reconcile()
    scene.book("b-2", user="bob")
    scene.annotate("b3", names.BOOKING, "b-2")
    scene.reconcile()
    assert scene.evicted() == []
    assert scene.held() is None
    scene.reconcile(2)
    assert scene.evicted() == ["b2"]


def test_a_victim_that_was_booked_a_moment_ago_stays_though_our_watch_lags(scene: Scene) -> None:
    scene.reconcile()
    scene.book("b-2", user="bob", count=4)
    scene.reclaimer.reconcile()
    assert scene.evicted() == []


def test_nobody_leaves_for_a_pod_whose_booking_was_released(scene: Scene) -> None:
    scene.reconcile()
    scene.end_booking()
    scene.reconcile(2)
    assert scene.held() is None
    assert scene.evicted() == []


def test_a_victim_with_a_notice_is_notified_when_it_may_stay() -> None:
    scene = Scene(terms=EvictionSettings(notice_seconds=30))
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    scene.reconcile(2)
    scene.end_booking()
    scene.reconcile(2)
    assert scene.annotation("b3", names.NOTICE) is None
    assert scene.reasons("b3") == [names.EVICTION_NOTICE, names.EVICTION_WITHDRAWN]
    assert scene.leaving.withdrawn == ["uid-b3"]
    assert scene.leaving.wanted == frozenset()


def test_nobody_leaves_for_a_pod_that_its_user_has_just_deleted(scene: Scene) -> None:
    scene.reconcile()
    scene.gone("a")
    scene.reclaimer.reconcile()  # the cache still shows it
    assert scene.evicted() == []


def test_nobody_leaves_for_a_pod_that_was_bound_a_moment_ago(scene: Scene) -> None:
    scene.reconcile()
    scene.bind("a", 3)
    scene.reclaimer.reconcile()
    assert scene.evicted() == []


def test_nobody_leaves_for_a_hold_that_somebody_else_has_written_meanwhile(scene: Scene) -> None:
    scene.reconcile()
    scene.hold("a", Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-b0",), at=scene.clock.now()))
    scene.reclaimer.reconcile()
    assert scene.evicted() == []
    scene.reconcile()
    assert scene.evicted() == ["b0"]


def test_an_unresponsive_agent_ends_the_hold(scene: Scene) -> None:
    scene.reconcile()
    scene.silence("n0")
    for _ in range(8):
        scene.clock.advance(10)
        scene.renew()
        scene.sync()
    scene.reconcile()
    assert scene.held() is None
    assert scene.evicted() == []


def test_a_protected_victim_stays_and_another_is_found(scene: Scene) -> None:
    scene.leaving.protected.add("b3")
    scene.reconcile(2)
    assert scene.held() is None
    scene.reconcile(2)
    assert scene.evicted() == ["b2"]
    assert scene.annotation("b3", names.NOTICE) is None


def test_a_protected_victim_is_thought_of_again_after_a_while(scene: Scene) -> None:
    for name in ("b0", "b1", "b2", "b3"):
        scene.leaving.protected.add(name)
    for _ in range(12):
        scene.reconcile()
    assert scene.held() is None
    scene.leaving.protected.clear()
    scene.after(SPARED_FOR)
    scene.reconcile()
    assert scene.evicted() == ["b3"]


def test_pods_that_are_protected_for_good_are_notified_ever_more_rarely() -> None:
    scene = Scene(terms=EvictionSettings(notice_seconds=0.5))
    scene.add_node()
    scene.fill()
    scene.book()
    scene.waiting("a")
    for name in ("b0", "b1", "b2", "b3"):
        scene.leaving.protected.add(name)
    for _ in range(600):
        scene.after(1)
    notified = [name for name, reason, _ in scene.events if reason == names.EVICTION_NOTICE]
    assert {name: notified.count(name) for name in set(notified)} == {f"b{n}": 12 for n in range(4)}


def test_a_pod_that_is_not_bound_in_time_loses_the_hold_and_the_node_is_barred(scene: Scene) -> None:
    scene.reconcile(2)
    scene.gone("b3")
    scene.reconcile()
    scene.after(BOUND_WITHIN - 0.5)
    assert scene.held() is not None
    scene.after(0.5)
    assert scene.held() is None
    assert scene.annotation("a", names.BARRED) == "n0"
    assert names.NODE_BARRED in scene.reasons("a")
    scene.after(5)
    assert scene.held() is None
    assert scene.evicted() == ["b3"]


def test_a_scheduler_that_is_away_costs_the_pod_nothing(scene: Scene) -> None:
    scene.renew_lease(names.SCHEDULER_LEASE)
    scene.reconcile(2)
    scene.gone("b3")
    scene.reconcile()
    scene.after(BOUND_WITHIN)
    scene.after(60)
    assert scene.held() is not None
    scene.renew_lease(names.SCHEDULER_LEASE)
    scene.after(0)
    scene.renew_lease(names.SCHEDULER_LEASE)
    scene.after(BOUND_WITHIN - 1)
    assert scene.held() is not None
    scene.renew_lease(names.SCHEDULER_LEASE)
    scene.after(1)
    assert scene.held() is None


def test_a_bar_is_lifted_after_a_while_or_when_the_pod_is_bound(scene: Scene) -> None:
    scene.annotate("a", names.BARRED, "n0,n9")
    scene.reconcile()
    assert scene.held() is None
    scene.after(601)
    assert scene.annotation("a", names.BARRED) is None
    scene.reconcile()
    assert scene.held() is not None
    scene.annotate("a", names.BARRED, "n0")
    scene.bind("a", 3)
    scene.reconcile()
    assert (scene.annotation("a", names.BARRED), scene.held()) == (None, None)


def test_an_unreachable_api_server_costs_the_pod_nothing(scene: Scene) -> None:
    scene.reconcile(2)
    scene.gone("b3")
    scene.reconcile()
    scene.clock.advance(BOUND_WITHIN)
    scene.renew()
    scene.sync()
    scene.kube.down = True
    scene.reclaimer.reconcile()
    scene.kube.down = False
    scene.reconcile()
    assert scene.held() is not None


def test_an_eviction_that_fails_is_tried_again(scene: Scene) -> None:
    scene.leaving.failing.append(DOWN)
    scene.reconcile(2)
    assert scene.evicted() == []
    scene.after(1)
    assert scene.evicted() == ["b3"]


def test_a_victim_whose_eviction_is_refused_again_and_again_is_replaced(scene: Scene) -> None:
    refusal = Refusal(code=500, message="this pod has more than one PodDisruptionBudget")
    scene.leaving.failing += [refused(Request("POST", "/"), refusal)] * 3
    scene.reconcile(2)
    scene.after(1)
    assert scene.kept().victims == ("uid-b3",)
    scene.after(1)
    assert scene.held() is None
    scene.reconcile(2)
    assert scene.evicted() == ["b2"]


def test_a_webhook_that_does_not_answer_is_held_against_no_victim(scene: Scene) -> None:
    scene.leaving.failing += [DryRunError(Request("POST", "/"), "failed calling webhook")] * 5
    scene.reconcile(2)
    for _ in range(4):
        scene.after(1)
    assert scene.kept().victims == ("uid-b3",)
    assert scene.evicted() == []
    scene.after(1)
    assert scene.evicted() == ["b3"]
    assert [name for name, reason, _ in scene.events if reason == names.EVICTION_NOTICE] == ["b3"]


def test_a_controller_that_no_longer_leads_evicts_nobody(scene: Scene) -> None:
    scene.reconcile()
    scene.sync()
    scene.kube.before("GET", lambda: setattr(scene, "leads", False))
    scene.reclaimer.reconcile()
    assert scene.evicted() == []


def test_an_agent_that_starts_again_at_once_does_not_cost_the_hold(scene: Scene) -> None:
    scene.reconcile()
    scene.stop_agent("n0")
    scene.reconcile(2)
    assert (scene.held() is not None, scene.evicted()) == (True, [])
    scene.start_agent("n0")
    scene.reconcile()
    assert scene.evicted() == ["b3"]


def test_an_agent_that_does_not_start_again_does(scene: Scene) -> None:
    scene.reconcile()
    scene.stop_agent("n0")
    scene.reconcile()
    scene.after(10)
    assert scene.held() is None
    assert scene.evicted() == []


def test_a_hold_that_cannot_be_read_is_removed(scene: Scene) -> None:
    scene.annotate("a", names.HOLD, "nonsense")
    scene.reconcile()
    assert scene.annotation("a", names.HOLD) is None


def test_a_hold_without_victims_waits_for_pods_that_leave_anyway(scene: Scene) -> None:
    scene.kube.delete(PODS, "b1", namespace="default")
    scene.reconcile(3)
    held = scene.held()
    assert held is not None
    assert (held.devices, held.victims) == (("GPU-n0-1",), ())
    assert scene.evicted() == []


def test_two_booked_pods_get_a_victim_each(scene: Scene) -> None:
    scene.book(count=2)
    scene.waiting("a2")
    scene.reconcile(2)
    assert sorted(scene.evicted()) == ["b2", "b3"]
    assert {scene.kept("a").devices, scene.kept("a2").devices} == {("GPU-n0-2",), ("GPU-n0-3",)}


def test_a_process_that_starts_again_between_any_two_steps_goes_on(scene: Scene) -> None:
    scene.restart()
    scene.reconcile()
    scene.restart()
    scene.reconcile()
    assert scene.evicted() == ["b3"]
    scene.restart()
    scene.reconcile()
    assert scene.evicted() == ["b3"]
    scene.gone("b3")
    scene.restart()
    scene.reconcile()
    assert scene.held() is not None
    scene.bind("a", 3)
    scene.restart()
    scene.reconcile(2)
    assert scene.held() is None
    assert scene.evicted() == ["b3"]
    assert [scene.exists(name) for name in ("b0", "b1", "b2")] == [True] * 3


def test_a_stale_leader_loses_against_the_version_of_the_pod(scene: Scene) -> None:
    scene.sync()
    scene.annotate("a", "note", "changed by somebody")
    scene.reclaimer.reconcile()
    assert scene.held() is None


def test_a_controller_that_stalled_between_decision_and_eviction_checks_again_first(scene: Scene) -> None:
    def booked_meanwhile() -> None:
        scene.clock.advance(DECIDED_WITHIN + 0.1)
        scene.book("b-2", user="bob", count=4)

    scene.reconcile()
    scene.leaving.meanwhile = booked_meanwhile
    scene.reconcile()
    scene.leaving.meanwhile = lambda: None
    scene.renew()
    scene.reconcile(3)
    assert scene.evicted() == []


def test_an_eviction_that_took_long_to_prepare_is_checked_again_and_done(scene: Scene) -> None:
    scene.reconcile()
    scene.leaving.meanwhile = lambda: scene.clock.advance(DECIDED_WITHIN + 0.1)
    scene.reconcile()
    assert scene.evicted() == ["b3"]


def test_a_controller_that_lost_the_lead_between_decision_and_eviction_evicts_nobody(scene: Scene) -> None:
    scene.reconcile()
    scene.leaving.meanwhile = lambda: setattr(scene, "leads", False)
    scene.reconcile()
    assert scene.evicted() == []
