"""Ways in which a booked pod takes a GPU, each from a fresh world until nothing moves any more."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from demo.simulation.controllers import Workload
from demo.simulation.job_controller import BatchJob
from tests.scenarios.acts import fill, served, settled
from tests.scenarios.claiming import BY_CLAIM, claiming, devices_of_claims, give, rules, world_of_claims
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.seeing import Value, devices, has_left, is_back, is_gone, runs, state_of, waits
from tests.scenarios.story import SHORT, Story
from tests.scenarios.world import World

Taking = Callable[[World], Value]
NOTICE_SECONDS: Final = 20


def _book_and_create(world: World) -> str:
    booking = world.alice.book()
    world.alice.create(a_pod("alice-1"))
    return booking


def owned(world: World) -> Value:
    """A workload's pod leaves; its controller makes another, which waits."""
    world.controllers.run(Workload("training", NAMESPACE, 4, a_pod("template")))
    world.until(lambda: sum(p.status.phase == "Running" for p in world.pods()) == 4, "four pods run")
    world.run(30)
    _book_and_create(world)
    served(world, "alice-1")
    settled(world)
    return _by_owner(state_of(world))


def of_a_job(world: World) -> Value:
    """The only pod of a Job that fails with it leaves, and comes back by our hand."""
    bobs = fill(world)
    world.bob.delete("bob-4")
    world.until(lambda: is_gone(world, "bob-4", bobs["bob-4"]), "bob-4 is gone")
    world.run(300)
    world.controllers.run_job(BatchJob("train", NAMESPACE, 1, a_pod("template")))
    served(world, "train-1")
    _book_and_create(world)
    served(world, "alice-1")
    settled(world)
    assert waits(world, "train-1")
    return state_of(world)


def requeued(world: World) -> Value:
    """A pod comes back with its request for a GPU, waits, and has one again when the booking is released."""
    bobs = fill(world, cheap="bob-3")
    world.bob.annotate("bob-3", on_evict="requeue")
    booking = _book_and_create(world)
    served(world, "alice-1")
    world.until(lambda: is_gone(world, "bob-3", bobs["bob-3"]) and waits(world, "bob-3"), "bob-3 waits again")
    world.alice.release(booking)
    served(world, "bob-3")
    settled(world)
    return state_of(world)


def deleted(world: World) -> Value:
    """A pod leaves for good, as it said."""
    bobs = fill(world, cheap="bob-3")
    world.bob.annotate("bob-3", on_evict="delete")
    _book_and_create(world)
    served(world, "alice-1")
    world.until(lambda: is_gone(world, "bob-3", bobs["bob-3"]), "bob-3 is gone")
    settled(world)
    return state_of(world)


def notified(world: World) -> Value:
    """A pod is notified some time before it has to leave."""
    bobs = fill(world, cheap="bob-3")
    _book_and_create(world)
    world.until(lambda: has_left(world, "bob-3", bobs["bob-3"]), "bob-3 leaves")
    served(world, "alice-1")
    settled(world)
    return state_of(world)


def refused(world: World) -> Value:
    """The booked pod is turned away by its kubelet, comes back and is served."""
    fill(world, cheap="bob-3")
    _book_and_create(world)
    world.until(lambda: devices(world.pod("alice-1")), "it is bound")
    world.kill("agent n1")
    world.until(lambda: runs(world, "alice-1"), "it runs")
    settled(world)
    return state_of(world)


def by_claim(world: World) -> Value:
    """A pod with a claim leaves for a booked one: a device is kept by a rule, and the victim comes back."""
    bobs = {name: world.bob.create(claiming(name)) for name in ("bob-1", "bob-2")}
    served(world, *bobs)
    world.run(30)
    world.bob.checkpoint("bob-2")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    served(world, "alice-1")
    world.until(lambda: is_back(world, "bob-2", bobs["bob-2"]), "bob-2 is back")
    settled(world)
    assert rules(world) == []
    holders = devices_of_claims(world).values()
    return {**state_of(world), "claims": sorted(len(claims) for claims in holders)}


def given_back(world: World) -> Value:
    """The claim of a booked pod has a device that another one has: it gives it back, and that pod leaves."""
    bob = world.bob.create(claiming("bob-1"))
    served(world, "bob-1")
    world.alice.book(model=BY_CLAIM)
    uid = world.alice.create(claiming("alice-1"))
    give(world, f"alice-1-gpu-{uid}")
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs", within=120)
    world.until(lambda: is_back(world, "bob-1", bob), "bob-1 is back")
    settled(world)
    assert rules(world) == []
    assert [len(claims) for claims in devices_of_claims(world).values()] == [1]
    return state_of(world)


def first_act(world: World) -> Value:
    """The story up to the end of a booking that is given back."""
    return Story(world).play_first_act()


def second_act(world: World) -> Value:
    """The story of a booking that ends by its time."""
    return Story(world).play_second_act()


WORLDS: Final[Mapping[Taking, Mapping[str, Any]]] = {
    first_act: {},
    second_act: {"policy": SHORT},
    owned: {},
    of_a_job: {},
    requeued: {},
    deleted: {},
    notified: {"notice_seconds": NOTICE_SECONDS},
    refused: {},
    given_back: {"kind": world_of_claims, "gpus": 1},
    by_claim: {"kind": world_of_claims, "nodes": ("n0", "n1"), "gpus": 1},
}
"""Way -> the settings of its world."""


def world_of(taking: Taking, new_world: Worlds) -> World:
    """A fresh one for it."""
    return new_world(**WORLDS[taking])


def _by_owner(state: Value) -> Value:
    """Pods that differ in a generated name alone are alike; those that a kubelet has refused do not count."""
    hers = {key: pod for key, pod in state["pods"].items() if key.endswith("/alice-1")}
    others = (pod for key, pod in state["pods"].items() if key not in hers and pod["live"])
    return {**state, "pods": hers, "others": sorted(map(repr, others))}
