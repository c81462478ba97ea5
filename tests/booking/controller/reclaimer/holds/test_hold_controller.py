"""From a plan to a bound pod: each step, each guard, and a restart between any two of them."""

import pytest

from booking.controller.reclaimer.evictor import DECIDED_WITHIN, DryRunError, NoComebackError
from booking.controller.reclaimer.holds.hold_controller import BIND_DEADLINE, BOUND_WITHIN
from booking.controller.reclaimer.holds.unevictable import SPARED_FOR
from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a_pod


def test_the_pod_that_loses_least_is_held_notified_and_evicted(cluster: FakeCluster) -> None:
    cluster.reconcile()
    held = cluster.kept()
    assert (held.node, held.devices, held.victims) == ("n0", ("GPU-n0-3",), ("uid-b3",))
    assert held.at == cluster.clock.now()
    assert cluster.evicted() == []
    cluster.reconcile()
    assert cluster.evicted() == ["b3"]
    assert "default/a" in (cluster.annotation("b3", names.NOTICE) or "")
    assert cluster.reasons("b3") == [event_reasons.EVICTION_NOTICE]
    assert cluster.evictor.wanted == {"uid-b3"}


def test_nothing_is_evicted_before_the_hold_is_seen_in_our_own_cache(cluster: FakeCluster) -> None:
    cluster.sync()
    cluster.reclaimer.reconcile()
    cluster.reclaimer.reconcile()
    assert cluster.held() is not None
    assert cluster.evicted() == []


def test_a_hold_is_written_once_even_while_the_cache_lags(cluster: FakeCluster) -> None:
    cluster.sync()
    for _ in range(3):
        cluster.reclaimer.reconcile()
    patches = [c for c in cluster.kube.calls if c.verb == "PATCH" and names.HOLD in str(c.body)]
    assert len(patches) == 1


def test_a_bound_pod_keeps_no_hold(cluster: FakeCluster) -> None:
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.reconcile()
    cluster.bind("a", 3)
    cluster.reconcile()
    assert cluster.held() is None
    assert cluster.evicted() == ["b3"]


def test_a_free_device_of_a_hold_must_stay_free_for_the_bind_deadline(cluster: FakeCluster) -> None:
    cluster.book(count=2)
    cluster.create(a_pod("a").of("alice").asks(2))
    cluster.gone("b0")
    cluster.reconcile(2)
    assert cluster.kept().devices == ("GPU-n0-0", "GPU-n0-3")
    assert cluster.evicted() == []
    cluster.after(BIND_DEADLINE - 0.1)
    assert cluster.evicted() == []
    cluster.after(0.1)
    assert cluster.evicted() == ["b3"]


def test_a_free_device_must_stay_free_even_when_the_agent_was_starting_at_first(cluster: FakeCluster) -> None:
    cluster.book(count=2)
    cluster.create(a_pod("a").of("alice").asks(2))
    cluster.gone("b0")
    cluster.reconcile()
    cluster.stop_agent("n0")
    cluster.reconcile()
    cluster.start_agent("n0")
    cluster.reconcile()
    assert cluster.evicted() == []
    cluster.after(BIND_DEADLINE)
    assert cluster.evicted() == ["b3"]


def test_no_pod_is_evicted_for_a_pod_whose_booking_was_released(cluster: FakeCluster) -> None:
    cluster.reconcile()
    cluster.end_booking()
    cluster.reconcile(2)
    assert cluster.held() is None
    assert cluster.evicted() == []


def test_no_pod_is_evicted_for_a_hold_that_another_has_replaced_in_the_meantime(cluster: FakeCluster) -> None:
    cluster.reconcile()
    cluster.hold("a", Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-b0",), at=cluster.clock.now()))
    cluster.reclaimer.reconcile()
    assert cluster.evicted() == []
    cluster.reconcile()
    assert cluster.evicted() == ["b0"]


def test_a_protected_victim_is_considered_again_after_a_while(cluster: FakeCluster) -> None:
    for name in ("b0", "b1", "b2", "b3"):
        cluster.evictor.protected.add(name)
    for _ in range(12):
        cluster.reconcile()
    assert (cluster.kept().victims, cluster.evicted()) == (("uid-b3",), [])
    cluster.evictor.protected.clear()
    cluster.after(SPARED_FOR)
    cluster.reconcile()
    assert cluster.evicted() == ["b3"]


@pytest.mark.parametrize("limit", [None, 599])
def test_the_cheapest_of_protected_pods_is_notified_once_and_not_before_budgets_are_overridden_in_time(
    limit: float | None,
) -> None:
    terms = EvictionSettings(notice_seconds=0.5, budget_override_seconds=limit)
    cluster = FakeCluster(terms=terms).contended()
    cluster.evictor.protected |= {"b0", "b1", "b2", "b3"}
    for _ in range(590):
        cluster.after(1)
    reported = [(pod, reason) for pod, reason, _ in cluster.events if reason.startswith("Eviction")]
    assert sorted(reported) == sorted(
        [("a", event_reasons.EVICTIONS_BLOCKED)] + ([("b3", event_reasons.EVICTION_NOTICE)] if limit else [])
    )


def test_a_pod_not_bound_in_time_loses_its_hold_and_the_node_is_barred(cluster: FakeCluster) -> None:
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.reconcile()
    cluster.after(BOUND_WITHIN - 0.5)
    assert cluster.held() is not None
    cluster.after(0.5)
    assert cluster.held() is None
    assert cluster.annotation("a", names.BARRED) == "n0"
    assert event_reasons.NODE_BARRED in cluster.reasons("a")
    cluster.after(5)
    assert cluster.held() is None
    assert cluster.evicted() == ["b3"]


def test_an_absent_scheduler_costs_the_pod_nothing(cluster: FakeCluster) -> None:
    cluster.renew_lease(names.SCHEDULER_LEASE)
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.reconcile()
    cluster.after(BOUND_WITHIN)
    cluster.after(60)
    assert cluster.held() is not None
    cluster.renew_lease(names.SCHEDULER_LEASE)
    cluster.after(0)
    cluster.renew_lease(names.SCHEDULER_LEASE)
    cluster.after(BOUND_WITHIN - 1)
    assert cluster.held() is not None
    cluster.renew_lease(names.SCHEDULER_LEASE)
    cluster.after(1)
    assert cluster.held() is None


def test_an_unreachable_api_server_costs_the_pod_nothing(cluster: FakeCluster) -> None:
    cluster.reconcile(2)
    cluster.gone("b3")
    cluster.reconcile()
    cluster.clock.advance(BOUND_WITHIN)
    cluster.renew()
    cluster.sync()
    cluster.kube.down = True
    cluster.reclaimer.reconcile()
    cluster.kube.down = False
    cluster.reconcile()
    assert cluster.held() is not None


@pytest.mark.parametrize("code", [400, 403, 422, 429, 500])
def test_a_victim_whose_eviction_is_refused_repeatedly_is_replaced(cluster: FakeCluster, code: int) -> None:
    refusal = Refusal(code=code, message='admission webhook "x" denied the request: it is migrated')
    cluster.evictor.failing += [refused(Request("POST", "/"), refusal)] * 3
    cluster.reconcile(2)
    cluster.after(1)
    assert cluster.kept().victims == ("uid-b3",)
    cluster.after(1)
    assert cluster.held() is None
    cluster.reconcile(2)
    assert cluster.evicted() == ["b2"]


def test_a_victim_that_could_not_come_back_is_replaced_at_once(cluster: FakeCluster) -> None:
    cluster.evictor.failing.append(NoComebackError("default/b3 could not come back: not allowed"))
    cluster.reconcile(2)
    assert cluster.held() is None
    cluster.reconcile(2)
    assert cluster.evicted() == ["b2"]
    assert any("default/b3 could not come back" in message for _, _, message in cluster.events)


def test_an_unresponsive_webhook_is_held_against_no_victim(cluster: FakeCluster) -> None:
    cluster.evictor.failing += [DryRunError(Request("POST", "/"), "failed calling webhook")] * 5
    cluster.reconcile(2)
    for _ in range(4):
        cluster.after(1)
    assert cluster.kept().victims == ("uid-b3",)
    assert cluster.evicted() == []
    cluster.after(1)
    assert cluster.evicted() == ["b3"]
    assert [name for name, reason, _ in cluster.events if reason == event_reasons.EVICTION_NOTICE] == ["b3"]


def test_an_agent_that_does_not_restart_ends_the_hold(cluster: FakeCluster) -> None:
    cluster.reconcile()
    cluster.stop_agent("n0")
    cluster.reconcile()
    cluster.after(10)
    assert cluster.held() is None
    assert cluster.evicted() == []


def test_an_unreadable_hold_is_removed(cluster: FakeCluster) -> None:
    cluster.annotate("a", names.HOLD, "nonsense")
    cluster.reconcile()
    assert cluster.annotation("a", names.HOLD) is None


def test_a_hold_without_victims_waits_for_pods_that_are_leaving_anyway(cluster: FakeCluster) -> None:
    cluster.kube.delete(PODS, "b1", namespace="default")
    cluster.reconcile(3)
    held = cluster.held()
    assert held is not None
    assert (held.devices, held.victims) == (("GPU-n0-1",), ())
    assert cluster.evicted() == []


def test_the_version_of_the_pod_stops_a_stale_leader(cluster: FakeCluster) -> None:
    cluster.sync()
    cluster.annotate("a", "note", "changed by somebody")
    cluster.reclaimer.reconcile()
    assert cluster.held() is None


def test_a_controller_that_stalled_between_decision_and_eviction_checks_again_first(
    cluster: FakeCluster,
) -> None:
    def booked_meanwhile() -> None:
        cluster.clock.advance(DECIDED_WITHIN + 0.1)
        cluster.book("b-2", user="bob", count=4)

    cluster.reconcile()
    cluster.evictor.meanwhile = booked_meanwhile
    cluster.reconcile()
    cluster.evictor.meanwhile = lambda: None
    cluster.renew()
    cluster.reconcile(3)
    assert cluster.evicted() == []


def test_an_eviction_that_took_long_to_prepare_is_checked_again_and_carried_out(cluster: FakeCluster) -> None:
    cluster.reconcile()
    cluster.evictor.meanwhile = lambda: cluster.clock.advance(DECIDED_WITHIN + 0.1)
    cluster.reconcile()
    assert cluster.evicted() == ["b3"]


def test_a_controller_that_lost_the_lead_between_decision_and_eviction_evicts_no_pod(
    cluster: FakeCluster,
) -> None:
    cluster.reconcile()
    cluster.evictor.meanwhile = lambda: setattr(cluster, "leads", False)
    cluster.reconcile()
    assert cluster.evicted() == []
