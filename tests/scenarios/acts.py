"""What happens in many scenarios, and what is checked in the end."""

from typing import Any

from cluster import names
from cluster.objects.pods import asks_for_gpus, is_live, is_terminating
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.seeing import devices, is_back, runs, uid_of
from tests.scenarios.world import World

BOBS = ("bob-1", "bob-2", "bob-3", "bob-4")


def fill(world: World, *, cheap: str | None = None, **pod: Any) -> dict[str, str]:
    """Bob's four pods take the four A100s; name -> uid. ``cheap`` has just saved its work."""
    for name in BOBS:
        world.bob.create(a_pod(name, **pod))
    world.until(lambda: runs(world, *BOBS), "bob has all GPUs")
    world.run(30)
    if cheap:
        world.bob.checkpoint(cheap)
    return {name: uid_of(world, name) for name in BOBS}


def served(world: World, *pods: str) -> None:
    """These pods run, and time goes on until nothing moves."""
    world.until(lambda: runs(world, *pods), f"{', '.join(pods)} run")


def settled(world: World, seconds: float = 70.0) -> None:
    """Whatever is under way comes to its end; the laws are judged."""
    world.run(seconds)
    world.laws.finish()


def left(world: World, were: dict[str, str]) -> list[str]:
    """Who of them is not there any more with what it had, in order."""
    now = {p.metadata.name: p.metadata.uid for p in world.pods() if is_live(p)}
    return sorted(name for name, uid in were.items() if now.get(name) != uid)


def came_back(world: World, were: dict[str, str]) -> list[str]:
    """Who of them is there again without a GPU."""
    return sorted(name for name, uid in were.items() if is_back(world, name, uid))


def gpus(world: World, *, namespace: str = NAMESPACE) -> dict[str, int]:
    """Pod -> how many devices it has; pods that live and ask for GPUs."""
    pods = world.pods(namespace=namespace)
    return {p.metadata.name: len(devices(p)) for p in pods if is_live(p) and asks_for_gpus(p)}


def leaving(world: World) -> list[str]:
    """Who has been deleted and has not gone."""
    return sorted(p.metadata.name for p in world.pods() if is_terminating(p))


def is_kept(world: World, name: str) -> bool:
    """Whether devices are kept for a pod that waits."""
    pod = world.pod(name)
    return pod is not None and pod.metadata.annotation(names.HOLD) is not None
