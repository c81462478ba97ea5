"""Pods that others create for people: notebooks of a JupyterHub, of MAIA too, and pods of controllers."""

from datetime import timedelta
from typing import Any

import pytest

from cluster import event_reasons, names
from cluster.kube.resources import EVENTS, NAMESPACES
from cluster.objects.cover_annotations import text_of
from cluster.objects.pods import asks_for_gpus
from tests.scenarios.acts import came_back, fill, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, Person, a_pod
from tests.scenarios.seeing import runs, waits
from tests.scenarios.world import World

Json = dict[str, Any]

HUB = "system:serviceaccount:hub:hub"
JOBS = "system:serviceaccount:kube-system:job-controller"


def a_world(new_world: Worlds) -> World:
    return new_world(trusted_creators=(HUB,))


def a_notebook(user: str, **label: str) -> Json:
    body = a_pod(f"jupyter-{user}")
    body["metadata"]["annotations"] |= {names.HUB_USER: user} if not label else {}
    body["metadata"]["labels"] = label
    return body


def test_a_notebook_for_which_no_gpu_is_free_starts_at_once_without_one(new_world: Worlds) -> None:
    world = a_world(new_world)
    bobs = fill(world)
    Person(world, HUB).create(a_notebook("bob"))
    served(world, "jupyter-bob")
    settled(world)
    pod = world.pod("jupyter-bob")
    assert pod is not None
    assert not asks_for_gpus(pod)
    assert pod.metadata.annotation(names.STRIPPED) is not None
    assert left(world, bobs) == []
    reasons = [
        one.reason for one in world.kube.list(EVENTS).items if one.metadata.name.startswith("jupyter-bob.")
    ]
    assert reasons.count(event_reasons.CREATED_WITHOUT_GPU) == 1


def test_a_booked_notebook_gets_the_gpu_that_was_booked(new_world: Worlds) -> None:
    world = a_world(new_world)
    bobs = fill(world)
    world.alice.book()
    world.run(1)
    Person(world, HUB).create(a_notebook("alice", **{names.HUB_USER: "alice"}))
    served(world, "jupyter-alice")
    settled(world)
    pod = world.pod("jupyter-alice")
    assert pod is not None
    assert pod.metadata.annotation(names.USER) == "alice"
    assert asks_for_gpus(pod)
    assert len(left(world, bobs)) == 1
    assert came_back(world, bobs) == left(world, bobs)


def test_l6_a_notebook_waits_with_its_request_while_it_is_unknown_what_is_free(new_world: Worlds) -> None:
    world = a_world(new_world)
    fill(world)
    for agent in ("agent n0", "agent n1"):
        world.kill(agent, back_after=120)
    world.run(90)
    Person(world, HUB).create(a_notebook("bob"))
    world.run(5)
    pod = world.pod("jupyter-bob")
    assert pod is not None
    assert asks_for_gpus(pod)
    assert waits(world, "jupyter-bob")


def test_a_controllers_pod_is_covered_by_the_booking_of_its_namespaces_owner(new_world: Worlds) -> None:
    world = a_world(new_world)
    world.kube.put(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
    world.kube.put(NAMESPACES, {"metadata": {"name": NAMESPACE, "annotations": {names.OWNER: "alice"}}})
    bobs = fill(world)
    world.alice.book()
    Person(world, JOBS).create(a_pod("job-1"))
    served(world, "job-1")
    settled(world)
    assert runs(world, "job-1")
    assert len(left(world, bobs)) == 1


# --- MAIA mode ---------------------------------------------------------------------------------------------
LONG_AGO = "1900-01-01T08:00:00Z"
"""What MAIA's webhook writes on a pod without a booking."""


def notebooks_of_maia(world: World, *until: str) -> dict[str, str]:
    """One notebook of bob's for each instant that MAIA's webhook writes; name -> uid, when they run."""
    hub, found = Person(world, HUB), {}
    for number, instant in enumerate(until):
        body = a_notebook("bob")
        body["metadata"]["name"] = f"notebook-{number}"
        body["metadata"]["annotations"][names.TERMINATE_AT] = instant
        found[f"notebook-{number}"] = hub.create(body)
    served(world, *found)
    return found


def terminate_at(world: World, name: str) -> str | None:
    pod = world.pod(name)
    assert pod is not None
    return pod.metadata.annotation(names.TERMINATE_AT)


def test_maias_notebooks_without_a_booking_leave_for_a_booked_pod(new_world: Worlds) -> None:
    world = new_world(trusted_creators=(HUB,), maia=True)
    later = text_of(world.clock.now() + timedelta(days=1))
    were = notebooks_of_maia(world, later, later, LONG_AGO, later)
    settled(world)
    deadlines = [terminate_at(world, name) for name in sorted(were)]
    assert deadlines == [later, later, LONG_AGO, later]
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert left(world, were) == came_back(world, were) == ["notebook-2"]


@pytest.mark.parametrize(("maia", "leaves"), [(True, 0), (False, 1)])
def test_maias_grants_hold_where_maia_is_honoured_and_nowhere_else(
    new_world: Worlds, leaves: int, *, maia: bool
) -> None:
    world = new_world(trusted_creators=(HUB,), maia=maia)
    later = text_of(world.clock.now() + timedelta(days=1))
    were = notebooks_of_maia(world, *[later] * 4)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.run(120)
    assert runs(world, "alice-1") == bool(leaves)
    assert len(left(world, were)) == leaves
