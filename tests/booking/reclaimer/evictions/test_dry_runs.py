"""A comeback is tried out while the hold is written, and nothing is asked twice for it."""

import pytest

from booking.reclaimer.evictions.dry_runs import MOST_AHEAD
from booking.reclaimer.evictor import DECIDED_WITHIN
from cluster import names
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import PODS, WHOLE_PODS
from cluster.objects.pods import is_terminating
from tests.booking.reclaimer.evictions.comebacks import NAMESPACE, World, gpu_pod

ASKED = ["GET pods/p", "POST pods?dryRun=All"]


def evict(world: World) -> None:
    """It leaves."""
    pod = world.pod()
    assert pod is not None
    world.evictor.evict(pod, world.why)


def test_what_was_asked_ahead_is_not_asked_again() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    assert world.asked == ASKED
    evict(world)
    assert world.asked == [*ASKED, "POST podtemplates", "PATCH pods/p", "POST pods/p/eviction"]


def test_nothing_is_written_by_asking_ahead() -> None:
    world = World()
    before = world.kube.raw(PODS, "p", namespace=NAMESPACE)
    world.evictor.prepare(world.victim, back="without-gpu")
    assert world.kube.raw(PODS, "p", namespace=NAMESPACE) == before
    assert world.templates == 0
    assert len(world.kube.list(PODS).items) == 1


def test_a_pod_that_has_changed_since_it_was_asked_about_is_asked_about_again() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    change = {"metadata": {"labels": {"new": "yes"}}}
    world.kube.patch(PODS, "p", change, namespace=NAMESPACE)
    evict(world)
    assert world.asked.count("POST pods?dryRun=All") == 2
    world.play()
    back = world.pod()
    assert back is not None
    assert back.metadata.labels == {"new": "yes"}


def test_an_answer_that_is_too_old_is_not_used() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    world.clock.advance(DECIDED_WITHIN + 0.1)
    evict(world)
    assert world.asked[:4] == ASKED * 2


def test_an_answer_outlives_a_pass_in_which_the_hold_was_refused() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="without-gpu")
    world.evictor.reconcile(frozenset())
    world.evictor.prepare(world.victim, back="without-gpu")
    evict(world)
    assert world.asked.count("POST pods?dryRun=All") == 1


def test_one_that_is_to_come_back_in_another_way_is_asked_about_again() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="as-it-was")
    evict(world)
    assert world.asked[:4] == ASKED * 2
    world.play()
    back = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    assert "resources" not in back.spec["containers"][0] or names.GPU_RESOURCE not in str(
        back.spec["containers"][0]["resources"]
    )


def test_a_pod_that_is_deleted_while_it_is_asked_about_is_left_alone() -> None:
    world = World()
    world.kube.then = {1: world.user_deletes}
    world.evictor.prepare(world.victim, back="without-gpu")
    evict(world)
    assert not any("eviction" in asked for asked in world.asked)
    assert world.templates == 0


def test_a_pod_of_which_nobody_comes_back_is_not_asked_about() -> None:
    world = World()
    world.evictor.prepare(world.victim, back="never")
    owner = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    owned = world.kube.put(PODS, gpu_pod("owned", ownerReferences=[owner]))
    world.evictor.prepare(owned, back="without-gpu")
    assert world.asked == []


def test_a_pod_that_is_made_ready_already_is_not_asked_about() -> None:
    world = World()
    world.kubelet_works = False
    world.round()
    asked = len(world.asked)
    world.evictor.prepare(world.victim, back="without-gpu")
    assert len(world.asked) == asked


def test_of_many_only_some_are_asked_about_ahead() -> None:
    world = World()
    many = [world.kube.put(PODS, gpu_pod(f"p{number}")) for number in range(MOST_AHEAD + 3)]
    for pod in many:
        world.evictor.prepare(pod, back="without-gpu")
    assert world.asked.count("POST pods?dryRun=All") == MOST_AHEAD


def test_that_the_api_server_could_not_be_asked_is_reported_when_the_pod_leaves() -> None:
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
