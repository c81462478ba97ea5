"""Jobs whose pods must leave: what is lost with one of them, and who brings it back."""

import pytest

from cluster import names
from cluster.objects.pods import Pod, asks_for_gpus, is_live
from demo.simulation.job_controller import UID_LABEL, BatchJob
from tests.fakes.objects import a100
from tests.scenarios.acts import left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.seeing import runs, uid_of, waits
from tests.scenarios.world import World

IGNORE = [{"action": "Ignore", "onPodConditions": [{"type": names.DISRUPTION_TARGET, "status": "True"}]}]


def job(parallelism: int, **more: object) -> BatchJob:
    return BatchJob("train", NAMESPACE, parallelism, a_pod("template"), **more)  # type: ignore[arg-type]


def living(world: World) -> dict[str, Pod]:
    return {pod.metadata.name: pod for pod in world.pods() if is_live(pod)}


def runs_job(world: World, one: BatchJob) -> BatchJob:
    """It runs for a minute beside whoever is there."""
    world.controllers.run_job(one)
    served(world, *(f"train-{number + 1}" for number in range(one.parallelism)))
    world.run(60)
    return one


def test_a_job_that_fails_with_one_of_its_pods_loses_them_last(world: World) -> None:
    bobs = {name: world.bob.create(a_pod(name)) for name in ("bob-1", "bob-2")}
    served(world, *bobs)
    train = runs_job(world, job(2))
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1
    assert not train.has_failed
    assert runs(world, "train-1", "train-2")


@pytest.mark.parametrize("more", [{"rules": IGNORE}, {"backoff_limit": 4}], ids=["ignored", "counted"])
def test_a_job_that_survives_loses_one_pod_and_replaces_it(more: dict[str, object], world: World) -> None:
    bobs = {name: world.bob.create(a_pod(name)) for name in ("bob-1", "bob-2")}
    served(world, *bobs)
    train = runs_job(world, job(2, **more))
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == []
    assert not train.has_failed
    assert waits(world, "train-3")
    assert not any(pod.metadata.annotation(names.RECREATED_FROM) for pod in world.pods())


def test_the_only_pod_of_a_job_that_fails_with_it_comes_back_once_and_waits_for_a_gpu(
    new_world: Worlds,
) -> None:
    world = new_world({"n0": (a100(0),)})
    train = runs_job(world, job(1))
    uid = uid_of(world, "train-1")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world, 180)
    assert train.has_failed
    back = living(world)["train-1"]
    assert set(living(world)) == {"alice-1", "train-1"}
    assert back.metadata.annotation(names.RECREATED_FROM) == uid
    assert asks_for_gpus(back)
    assert not back.spec.node_name
    assert not back.metadata.owner_references
    assert UID_LABEL not in (back.metadata.labels or {})
    world.alice.delete("alice-1")
    served(world, "train-1")


def test_a_pod_whose_containers_could_not_be_started_comes_back_as_it_was(world: World) -> None:
    for kubelet in world.kubelets.values():
        kubelet.is_runtime_away = True
    uid = world.bob.create(a_pod("bob-1"))
    world.until(lambda: (pod := world.pod("bob-1")) and pod.status.phase == "Failed", "it has failed")
    for kubelet in world.kubelets.values():
        kubelet.is_runtime_away = False
    served(world, "bob-1")
    settled(world)
    back = world.pod("bob-1")
    assert back is not None
    assert back.metadata.annotation(names.RECREATED_FROM) == uid
    assert asks_for_gpus(back)
