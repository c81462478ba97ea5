"""GPUs that become unhealthy, nodes cordoned or lost, unresponsive agents: which pods are served where."""

import pytest

from cluster import names
from cluster.kube.resources import NODES
from cluster.objects.pods import is_terminating
from demo.simulation.kubelet import REFUSED
from tests.fakes.objects import a100
from tests.scenarios.acts import came_back, fill, gpus, is_kept, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import devices, has_left, runs, uid_of, waits
from tests.scenarios.world import World


def index_of(world: World, name: str) -> tuple[str, int]:
    """Node and index of a pod's only GPU."""
    (gpu,) = devices(world.pod(name))
    _, node, index = gpu.split("-")
    return node, int(index)


def cordon(world: World, node: str, *, cordoned: bool = True) -> None:
    world.kube.patch(NODES, node, {"spec": {"unschedulable": cordoned or None}})


def test_a_gpu_that_becomes_unhealthy_under_a_booked_pod_ends_no_pod(world: World) -> None:
    bobs = fill(world)
    world.alice.book()
    hers = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    node, index = index_of(world, "alice-1")
    gone = left(world, bobs)
    world.agents[node].turn(index, healthy=False)
    settled(world)
    assert uid_of(world, "alice-1") == hers
    assert left(world, bobs) == gone


def test_a_pod_on_an_unhealthy_gpu_is_no_victim(world: World) -> None:
    bobs = fill(world)
    cheapest = next(name for name in bobs if index_of(world, name)[0] == "n0")
    world.bob.checkpoint(cheapest)
    node, index = index_of(world, cheapest)
    world.agents[node].turn(index, healthy=False)
    world.run(15)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) != [cheapest]
    assert len(left(world, bobs)) == 1


@pytest.mark.parametrize("stage", ["kept", "leaving"])
def test_another_gpu_is_found_when_the_held_one_becomes_unhealthy(stage: str, world: World) -> None:
    bobs = fill(world, cheap="bob-3")
    node, index = index_of(world, "bob-3")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(lambda: is_kept(world, "alice-1"), "kept")
    if stage != "kept":
        world.until(lambda: has_left(world, "bob-3", bobs["bob-3"]), "leaving")
    world.agents[node].turn(index, healthy=False)
    served(world, "alice-1")
    settled(world)
    assert index_of(world, "alice-1") != (node, index)
    assert came_back(world, bobs) == left(world, bobs)
    assert len(left(world, bobs)) <= 2


@pytest.mark.parametrize("stage", ["asked", "kept", "leaving"])
def test_a_booked_pod_is_served_on_the_other_node_when_its_own_is_cordoned_meanwhile(
    stage: str, world: World
) -> None:
    bobs = fill(world, cheap="bob-3")
    node, _ = index_of(world, "bob-3")
    world.alice.book()
    if stage == "asked":
        cordon(world, node)
    world.alice.create(a_pod("alice-1"))
    if stage != "asked":
        world.until(lambda: is_kept(world, "alice-1"), "kept")
        if stage == "leaving":
            world.until(lambda: has_left(world, "bob-3", bobs["bob-3"]), "leaving")
        cordon(world, node)
    served(world, "alice-1")
    settled(world)
    pod = world.pod("alice-1")
    assert pod is not None
    assert pod.spec.node_name != node
    assert came_back(world, bobs) == left(world, bobs)


def lose(world: World, node: str) -> None:
    """The machine is off."""
    world.kill(f"kubelet {node}", back_after=None)
    world.kill(f"agent {node}", back_after=None)
    world.kubelets[node].machine.sandboxes.clear()
    world.kubelets[node].machine.checkpoint.clear()


@pytest.mark.parametrize("stage", ["asked", "kept", "leaving"])
def test_a_booked_pod_is_served_on_the_other_node_when_its_own_is_lost_meanwhile(
    stage: str, world: World
) -> None:
    bobs = fill(world, cheap="bob-3")
    node, _ = index_of(world, "bob-3")
    world.alice.book()
    if stage == "asked":
        lose(world, node)
        world.run(100)
    world.alice.create(a_pod("alice-1"))
    if stage != "asked":
        world.until(lambda: is_kept(world, "alice-1"), "kept")
        if stage == "leaving":
            world.until(lambda: has_left(world, "bob-3", bobs["bob-3"]), "leaving")
        lose(world, node)
    # Who was evicted cannot go, as long as its machine is off.
    world.is_unfinished = stage != "asked"
    world.until(lambda: runs(world, "alice-1"), "served on the other node", within=240)
    pod = world.pod("alice-1")
    assert pod is not None
    assert pod.spec.node_name != node


def test_no_pod_is_bound_or_evicted_on_a_node_whose_agent_is_unresponsive(new_world: Worlds) -> None:
    world = new_world({"n0": (a100(0), a100(1))})
    bobs = {name: world.bob.create(a_pod(name)) for name in ("bob-1", "bob-2")}
    served(world, *bobs)
    world.alice.book()
    world.kill("agent n0", back_after=None)
    world.run(80)
    world.alice.create(a_pod("alice-1"))
    world.run(60)
    assert left(world, bobs) == []
    assert not is_kept(world, "alice-1")
    world.start("agent n0")
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1


def test_an_agent_that_releases_its_lease_is_given_no_pod_until_it_is_back(new_world: Worlds) -> None:
    world = new_world({"n0": (a100(0), a100(1))})
    world.agents["n0"].release_lease()
    world.run(2)
    world.bob.create(a_pod("bob-1"))
    world.run(20)
    assert waits(world, "bob-1")
    world.start("agent n0")
    served(world, "bob-1")
    settled(world)


def test_a_pod_that_comes_to_a_node_while_its_agent_is_dead_fails_comes_back_and_is_served(
    world: World,
) -> None:
    bobs = fill(world, cheap="bob-3")
    node, _ = index_of(world, "bob-3")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(lambda: devices(world.pod("alice-1")), "it is bound")
    world.kill(f"agent {node}")
    world.until(lambda: (pod := world.pod("alice-1")) and pod.status.phase == "Failed", "it fails")
    failed = world.pod("alice-1")
    assert failed is not None
    assert failed.status.reason == REFUSED
    served(world, "alice-1")
    settled(world)
    assert uid_of(world, "alice-1") != failed.metadata.uid
    assert left(world, bobs) == ["bob-3"]
    assert sum(gpus(world).values()) == 4


def test_a_kubelet_that_was_away_for_minutes_ends_no_pod_and_continues(world: World) -> None:
    bobs = fill(world)
    world.kill("kubelet n0", back_after=120.0)
    world.run(200)
    settled(world)
    assert left(world, bobs) == []
    assert not any(n.spec.taints for n in world.kube.list(NODES).items)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")


def test_pods_of_a_node_that_stays_unresponsive_are_evicted_by_kubernetes_and_end_when_it_is_back(
    world: World,
) -> None:
    bobs = fill(world)
    on_it = sorted(n for n in bobs if index_of(world, n)[0] == "n0")
    world.kill("kubelet n0", back_after=600.0)
    world.run(500)
    assert [p.metadata.name for p in world.pods() if is_terminating(p)] == on_it
    world.run(300)
    world.laws.finish()
    assert [n for n in bobs if world.pod(n) is None] == on_it
    assert not any(n.metadata.annotation(names.DRIFT) for n in world.kube.list(NODES).items)
