"""The dry run of a comeback is made while the hold is written, and is not repeated."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from booking.controller.reclaimer.evictions.dry_runs import MOST_AHEAD
from booking.controller.reclaimer.evictor import DECIDED_WITHIN, DryRunError, NoComebackError
from cluster import event_reasons, names
from cluster.kube.errors import NotFound, Request, Unreachable
from cluster.kube.resources import LIMIT_RANGES, PODS, WHOLE_PODS
from cluster.objects.pods import is_terminating
from tests.booking.controller.reclaimer.evictions.comeback_rounds import error
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, World, gpu_pod

Json = dict[str, Any]

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


def limit_gpus(world: World, **limit: dict[str, str]) -> None:
    """A LimitRange of the namespace."""
    limits = [{"type": "Container", **limit}]
    body = {"metadata": {"name": "gpus"}, "spec": {"limits": limits}}
    world.kube.as_somebody_else(lambda: world.kube.create(LIMIT_RANGES, body, namespace=NAMESPACE))


def stored(world: World, **spec: Any) -> None:
    """More in the spec of the victim."""
    before = world.kube.raw(PODS, "p", namespace=NAMESPACE)
    world.victim = world.kube.put(PODS, {**before, "spec": {**before["spec"], **spec}})


def containers_of(world: World) -> list[Json]:
    """Of the pod that has the name now: init containers and containers."""
    spec = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE).spec
    return [*spec.get("initContainers", ()), *spec["containers"]]


@pytest.mark.parametrize("gpu", [names.GPU_RESOURCE, f"{names.MIG_RESOURCE_PREFIX}1g.10gb"])
def test_a_pod_without_a_gpu_is_given_none_by_a_limit_range(gpu: str) -> None:
    world = World()
    setup = {"name": "setup", "image": "x"}
    stored(world, initContainers=[setup])
    limit_gpus(world, max={gpu: "2", names.GPU_RESOURCE: "2"})
    world.play()
    for container in containers_of(world):
        for kind in ("limits", "requests"):
            given = {k: v for k, v in container["resources"][kind].items() if names.is_gpu_resource(k)}
            assert given == dict.fromkeys({gpu, names.GPU_RESOURCE}, "0")
    assert world.recorder.reasons[-1] == event_reasons.CAME_BACK


def test_a_limit_range_without_gpus_changes_nothing_about_them() -> None:
    world = World()
    limit_gpus(world, default={"memory": "1Gi"})
    world.play()
    (container,) = containers_of(world)
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}


def test_a_pod_that_spreads_by_label_keys_comes_back() -> None:
    world = World(labels={"app": "x", "hash": "1"})
    selector = {"matchLabels": {"app": "x"}}
    added = {"key": "hash", "operator": "In", "values": ["1"]}
    one = {"topologyKey": "zone", "maxSkew": 1, "matchLabelKeys": ["hash"]}
    spread = {**one, "labelSelector": {**selector, "matchExpressions": [added]}}
    stored(world, topologySpreadConstraints=[spread])
    world.play()
    pod = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    assert pod.metadata.annotation(names.RECREATED_FROM) == world.victim.metadata.uid
    assert pod.spec["topologySpreadConstraints"] == [spread]
    assert event_reasons.COMEBACK_REFUSED not in world.recorder.reasons


@pytest.mark.parametrize("code", [400, 403, 404, 410, 413, 422])
def test_a_pod_whose_replacement_is_refused_is_spared_once_where_others_can_go(code: int) -> None:
    world = World()
    world.why = replace(world.why, others_first=True)
    for attempt in range(2):
        world.kube.fail("POST", error(code))
        with nullcontext() if attempt else pytest.raises(NoComebackError, match="team/p could not come back"):
            evict(world)
        assert (world.templates, len(world.recorder.events)) == ((1, 2) if attempt else (0, 0))
        world.clock.advance(20)
    pod = world.pod()
    assert pod is not None
    assert is_terminating(pod)
    assert world.recorder.reasons == [event_reasons.COMEBACK_REFUSED, event_reasons.EVICTED_FOR_BOOKING]


@pytest.mark.parametrize("code", [409, 429, 500])
def test_a_refusal_that_may_pass_is_no_reason_to_evict_or_to_spare(code: int) -> None:
    world = World()
    world.why = replace(world.why, others_first=True)
    world.kube.fail("POST", error(code))
    with pytest.raises(DryRunError):
        evict(world)
    evict(world)
    pod = world.pod()
    assert pod is not None
    assert is_terminating(pod)


def test_an_eviction_that_is_answered_as_if_the_pod_were_gone_is_a_refusal() -> None:
    world = World()
    world.kube.then = {4: lambda: world.kube.fail("POST", error(404))}
    with pytest.raises(NotFound):
        evict(world)


def _no_answer() -> None:
    raise Unreachable(Request("GET", "pods/p"), "connection refused")
