"""The only pod of a Job that fails with it: it comes back by us, unless the Job replaces it after all."""

from typing import Any

import msgspec
import pytest

from booking.controller.reclaimer.evictor import TooLateError
from cluster import event_reasons, names
from cluster.objects.jobs import Job
from cluster.objects.pods import asks_for_gpus
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, World

UID_LABELS = {"batch.kubernetes.io/controller-uid": "j", "controller-uid": "j"}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j", "controller": True}


def a_job(limit: int = 0) -> Job:
    raw = {"metadata": {"name": "train", "uid": "j"}, "spec": {"backoffLimit": limit, "parallelism": 1}}
    return msgspec.convert(raw, Job)


def a_world(limit: int = 0, **more: Any) -> World:
    labels = {**UID_LABELS, "batch.kubernetes.io/job-name": "train"}
    world = World(back="as-it-was", ownerReferences=[OWNER], labels=labels, **more)
    world.jobs = {f"{NAMESPACE}/train": a_job(limit)}
    return world


def came_back(world: World) -> bool:
    pod = world.pod()
    if pod is None:
        return False
    assert pod.metadata.uid != world.victim.metadata.uid
    assert pod.metadata.annotation(names.RECREATED_FROM) == world.victim.metadata.uid
    assert pod.metadata.labels == {"batch.kubernetes.io/job-name": "train"}
    assert (pod.metadata.owner_references, asks_for_gpus(pod), world.templates) == (None, True, 0)
    return True


def test_it_comes_back_with_its_request_and_is_not_the_jobs_any_more() -> None:
    world = a_world()
    world.play()
    assert came_back(world)
    after = f"{world.why.message} The Job train does not count it any more."
    message = f"This pod came back and waits for a GPU. {after}"
    assert world.recorder.events[-1] == ("p", event_reasons.REQUEUED, message)


def test_a_pod_whose_job_replaces_it_or_is_not_known_does_not_come_back() -> None:
    for world in (a_world(1), a_world()):
        if world.jobs[f"{NAMESPACE}/train"].spec.backoff_limit == 0:
            world.jobs = {}
        world.play()
        assert not came_back(world)
        assert world.templates == 0


@pytest.mark.parametrize("call", range(1, 9))
def test_a_process_that_dies_at_any_call_changes_nothing(call: int) -> None:
    world = a_world()
    world.kube.dies_after = call
    world.play()
    assert came_back(world)


def test_what_was_prepared_is_undone_when_its_job_will_replace_it() -> None:
    world = a_world()
    world.sync()
    with pytest.raises(TooLateError):
        world.evictor.evict(world.victim, world.why, is_valid=lambda: False)
    assert world.templates == 1
    world.jobs = {f"{NAMESPACE}/train": a_job(1)}
    world.play()
    assert not came_back(world)
    assert world.templates == 0
