"""The dry run of a comeback is made while the hold is written, and is not repeated."""

import pytest

from booking.reclaimer.evictions.dry_runs import MOST_AHEAD
from booking.reclaimer.evictor import DECIDED_WITHIN
from cluster import names
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import PODS, WHOLE_PODS
from cluster.objects.pods import is_terminating
from tests.booking.reclaimer.evictions.comebacks import NAMESPACE, World, gpu_pod

DRY_RUN_CALLS = ["GET pods/p", "POST pods?dryRun=All"]


def evict(world: World) -> None:
    """It leaves."""
    pod = world.pod()
    assert pod is not None
    world.evictor.evict(pod, world.why)


def test_a_dry_run_made_ahead_is_not_repeated_at_the_eviction() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    assert world.calls == DRY_RUN_CALLS
    evict(world)
    assert world.calls == [*DRY_RUN_CALLS, "POST podtemplates", "PATCH pods/p", "POST pods/p/eviction"]


def test_a_dry_run_made_ahead_writes_nothing() -> None:
    world = World()
    before = world.kube.raw(PODS, "p", namespace=NAMESPACE)
    world.evictor.prepare(world.victim, back="without-gpu")
    assert world.kube.raw(PODS, "p", namespace=NAMESPACE) == before
    assert world.templates == 0
    assert len(world.kube.list(PODS).items) == 1


def test_a_pod_that_has_changed_since_its_dry_run_gets_another() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    change = {"metadata": {"labels": {"new": "yes"}}}
    world.kube.patch(PODS, "p", change, namespace=NAMESPACE)
    evict(world)
    assert world.calls.count("POST pods?dryRun=All") == 2
    world.play()
    back = world.pod()
    assert back is not None
    assert back.metadata.labels == {"new": "yes"}


def test_a_dry_run_that_is_too_old_is_repeated() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    world.clock.advance(DECIDED_WITHIN + 0.1)
    evict(world)
    assert world.calls[:4] == DRY_RUN_CALLS * 2


def test_a_dry_run_is_kept_over_a_pass_in_which_the_hold_was_refused() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    world.evictor.reconcile(frozenset())
    world.evictor.prepare(world.victim, back="without-gpu")
    evict(world)
    assert world.calls.count("POST pods?dryRun=All") == 1


def test_a_pod_that_must_come_back_in_another_form_gets_another_dry_run() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="as-it-was")
    evict(world)
    assert world.calls[:4] == DRY_RUN_CALLS * 2
    world.play()
    back = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    assert "resources" not in back.spec["containers"][0] or names.GPU_RESOURCE not in str(
        back.spec["containers"][0]["resources"]
    )


def test_a_pod_deleted_during_its_dry_run_is_left_alone() -> None:
    world = World()
    world.kube.then = {1: world.user_deletes}
    world.evictor.prepare(world.victim, back="without-gpu")
    evict(world)
    assert not any("eviction" in call for call in world.calls)
    assert world.templates == 0


def test_a_pod_that_does_not_come_back_gets_no_dry_run() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="never")
    owner = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    owned = world.kube.put(PODS, gpu_pod("owned", ownerReferences=[owner]))
    world.evictor.prepare(owned, back="without-gpu")
    assert world.calls == []


def test_a_pod_prepared_for_eviction_gets_no_further_dry_run() -> None:
    world = World()
    world.kubelet_works = False
    world.round()
    before = len(world.calls)
    world.evictor.prepare(world.victim, back="without-gpu")
    assert len(world.calls) == before


def test_only_a_limited_number_of_dry_runs_is_made_ahead() -> None:
    world = World()
    many = [world.kube.put(PODS, gpu_pod(f"p{number}")) for number in range(MOST_AHEAD + 3)]
    for pod in many:
        world.evictor.prepare(pod, back="without-gpu")
    assert world.calls.count("POST pods?dryRun=All") == MOST_AHEAD


def test_a_failed_dry_run_made_ahead_is_reported_at_the_eviction() -> None:
    world = World()
    world.kube.then = {1: _no_answer}
    world.evictor.prepare(world.victim, back="without-gpu")
    with pytest.raises(Unreachable):
        evict(world)
    evict(world)
    pod = world.pod()
    assert pod is not None
    assert is_terminating(pod)


def _no_answer() -> None:
    raise Unreachable(Request("GET", "pods/p"), "connection refused")
