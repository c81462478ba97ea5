"""Pods that use more of a GPU than their share: reported everywhere, and evicted where that is wanted."""

from cluster import names
from cluster.objects.device_usage import OverUser
from tests.scenarios.acts import came_back, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.seeing import devices, uid_of
from tests.scenarios.test_sharers import a_share, a_world, is_booked, sharing
from tests.scenarios.world import World

OWN = {"sharing_overuse": "evict"}
NOTICE = 30
REPORTS = 30.0
"""Seconds within which each agent has renewed its Lease."""


def uses(world: World, *pods: str, share: int = 20_000) -> None:
    """From its next report on, the agent names exactly these pods."""
    found = [(world.pod(name), uid_of(world, name)) for name in pods]
    world.agents["n0"].over_users = tuple(
        OverUser(device=min(devices(pod)), uid=uid, used=share + 5_000, limit=share) for pod, uid in found
    )


def is_notified(world: World, name: str) -> bool:
    pod = world.pod(name)
    return pod is not None and pod.metadata.annotation(names.NOTICE) is not None


def test_an_over_user_leaves_with_notice_alone_and_comes_back_once_without_its_share(
    new_world: Worlds,
) -> None:
    world = a_world(new_world, notice_seconds=NOTICE, **OWN)
    bobs = sharing(world, ("bob-1", 20_000), ("bob-2", 20_000), ("bob-3", 20_000))
    uses(world, "bob-2")
    world.until(lambda: is_notified(world, "bob-2"), "bob-2 is notified", within=REPORTS)
    world.run(NOTICE + REPORTS)
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-2"]


def test_whoever_wants_to_be_requeued_comes_back_without_a_share_all_the_same(new_world: Worlds) -> None:
    world = a_world(new_world, **OWN)
    pod = a_share("bob-1", 20_000)
    pod["metadata"]["annotations"][names.ON_EVICT] = "requeue"
    world.bob.create(pod)
    served(world, "bob-1")
    bobs = {"bob-1": uid_of(world, "bob-1")}
    uses(world, "bob-1")
    world.run(REPORTS)
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-1"]


def test_an_over_user_who_uses_less_before_the_notice_is_over_stays(new_world: Worlds) -> None:
    world = a_world(new_world, notice_seconds=300, **OWN)
    bobs = sharing(world, ("bob-1", 20_000))
    uses(world, "bob-1")
    world.until(lambda: is_notified(world, "bob-1"), "bob-1 is notified", within=REPORTS)
    uses(world)
    world.until(lambda: not is_notified(world, "bob-1"), "the notice is taken back", within=REPORTS)
    world.run(300)
    settled(world)
    assert left(world, bobs) == []


def test_a_booked_over_user_stays(new_world: Worlds) -> None:
    world = a_world(new_world, **OWN)
    world.alice.book()
    world.alice.create(a_share("alice-1", 20_000))
    served(world, "alice-1")
    world.until(lambda: is_booked(world, "alice-1"), "alice's share is booked")
    alices = {"alice-1": uid_of(world, "alice-1")}
    uses(world, "alice-1")
    world.run(3 * REPORTS)
    settled(world)
    assert left(world, alices) == []


def test_nobody_leaves_for_over_use_where_it_is_only_reported(new_world: Worlds) -> None:
    world = a_world(new_world)
    bobs = sharing(world, ("bob-1", 20_000))
    uses(world, "bob-1")
    world.run(3 * REPORTS)
    settled(world)
    assert left(world, bobs) == []
