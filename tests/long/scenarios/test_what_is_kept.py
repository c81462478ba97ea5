"""The memory that pods, bookings and many passes took in a part is freed when they are gone.

The soak of the booking server measures bytes; here objects are counted, and what is bounded does not count.
"""

import gc
import sys
from collections import Counter, OrderedDict
from datetime import timedelta
from itertools import pairwise
from sqlite3 import Connection
from types import ModuleType
from typing import Any, Final

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.availability.calendars import Calendars
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.events import EventRecorder
from demo.simulation.loop import Loop
from demo.simulation.part import Part
from demo.simulation.part_client import PartKube
from tests.laws.watcher import LawWatcher
from tests.scenarios.acts import served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.world import World

AROUND: Final = (ModuleType, type, Part, World, Loop, FakeKube, FakeClock, LawWatcher, PartKube)
"""Not a part's own."""
BOUNDED: Final = (OrderedDict, EventRecorder, Calendars, Connection)
"""What forgets the oldest: caches, Events that may repeat, bookings that are over, SQLite's statements."""
ROUNDS: Final = 4
FEW: Final = 20
"""Objects; a part with no more was not searched."""
FORGOTTEN: Final = 8 * 86400.0
"""Seconds after which the cluster has nothing of a booking any more."""


def kept(world: World, part: Part) -> Counter[str]:
    """How many objects of each type a part keeps, what is bounded left out."""
    gc.collect()
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    seen: dict[int, Any] = {id(vars(module)): None for module in modules}
    found = Counter[str]()
    todo: list[Any] = [each.action for each in world.loop._tasks if each.life is part.life]
    todo += vars(part).values()
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, (*AROUND, *BOUNDED)):
            seen[id(one)] = one
            found[type(one).__name__] += 1
            todo += gc.get_referents(one)
    return found


def come_and_go(world: World, number: int) -> None:
    """Bob has all GPUs, alice books two and gets them; then everybody leaves, and days pass."""
    bobs = [f"bob-{number}-{each}" for each in range(4)]
    for name in bobs:
        world.bob.create(a_pod(name))
    served(world, *bobs)
    booking = world.alice.book(2, lasting=timedelta(hours=2))
    world.alice.create(a_pod(f"alice-{number}", 2))
    served(world, f"alice-{number}")
    world.run(60)
    world.alice.release(booking)
    for pod in world.pods():
        world.bob.delete(pod.metadata.name)
    world.until(lambda: not world.pods(), "all are gone")
    settled(world, FORGOTTEN)


def test_no_part_keeps_anything_of_users_and_pods_that_have_left(new_world: Worlds) -> None:
    world = new_world(policy=Limits(shortest=Duration(seconds=3600), cooldown=Duration()))
    come_and_go(world, 0)
    counts: dict[str, list[Counter[str]]] = {name: [] for name in world.parts}
    for number in range(1, 1 + ROUNDS):
        come_and_go(world, number)
        for name, part in world.parts.items():
            counts[name].append(kept(world, part))
    grown = {
        (name, kind)
        for name, found in counts.items()
        for kind in found[-1]
        if all(before[kind] < after[kind] for before, after in pairwise(found))
    }
    assert grown == set()
    assert all(found[-1].total() > FEW for found in counts.values())
