"""A week of everyday life by chance: bookings, pods, deletions, parts that die; no law is broken."""

import hashlib
import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.errors import RefusedError
from cluster.objects.pods import asks_for_gpus, is_live, is_terminal
from tests.fakes.objects import A100, A6000, a100, a6000
from tests.scenarios.acts import settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import Person, a_pod
from tests.scenarios.sampling import some
from tests.scenarios.world import World

WEEK = 7 * 86400.0
EVERYDAY = Limits(
    shortest=Duration(seconds=3600), cooldown=Duration(seconds=6 * 3600), longest=Duration(days=3)
)
NODES = {
    "n0": (a100(0, "n0"), a100(1, "n0"), a6000(2, "n0")),
    "n1": (a100(0, "n1"), a100(1, "n1"), a100(2, "n1"), a100(3, "n1")),
}


V = TypeVar("V")


class Chance:
    """The same choices each time for the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._numbers = itertools.count()

    def number(self, below: int) -> int:
        """From 0 on."""
        text = f"{self._seed}/{next(self._numbers)}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % below

    def choice(self, of: Sequence[V]) -> V:
        """One of them."""
        return of[self.number(len(of))]


class Week:
    """What people do when they feel like it."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = Chance(seed)
        self.people = [world.alice, world.bob, Person(world, "kubernetes-admin")]
        self.bookings: list[tuple[Person, str]] = []
        self.created = 0

    def play(self) -> None:
        """Somebody does something every few hours, or two things at once."""
        weights: dict[Callable[[], object], int] = {
            self.creates: 10,
            self.deletes: 3,
            self.books: 4,
            self.gives_back: 1,
            self.saves: 2,
            self.dies: 1,
        }
        acts = [act for act, weight in weights.items() for _ in range(weight)]
        end = self.world.loop.now + WEEK
        while self.world.loop.now < end:
            self.chance.choice(acts)()
            self.world.run(self.chance.choice([60.0, 1800.0, 3 * 3600.0, 9 * 3600.0]))

    def creates(self) -> None:
        self.created += 1
        gpus, model = self.chance.choice([(1, A100), (1, A100), (1, A6000), (2, A100), (3, A100)])
        seconds = self.chance.choice([None, 600.0, 7200.0, 86400.0])
        person = self.chance.choice(self.people)
        person.create(a_pod(f"pod-{self.created}", gpus, model=model, seconds=seconds))

    def deletes(self) -> None:
        pods = [p for p in self.world.pods() if is_live(p) or is_terminal(p)]
        if pods:
            self.people[0].delete(self.chance.choice(pods).metadata.name)

    def books(self) -> None:
        person, now = self.chance.choice(self.people), self.world.clock.now()
        start = self.chance.choice([None, now + timedelta(hours=1 + self.chance.number(30))])
        try:
            booking = person.book(
                1 + self.chance.number(3),
                model=self.chance.choice([A100, A100, A6000]),
                lasting=timedelta(hours=1 + self.chance.number(60)),
                start=start,
                topology="any",
            )
        except RefusedError:
            return
        self.bookings.append((person, booking))

    def gives_back(self) -> None:
        if self.bookings:
            person, booking = self.bookings.pop()
            try:
                person.release(booking)
            except RefusedError:
                self.cancels(person, booking)

    def cancels(self, person: Person, booking: str) -> None:
        try:
            person.cancel(booking)
        except RefusedError:
            assert booking  # it is over

    def saves(self) -> None:
        pods = [p for p in self.world.pods() if is_live(p) and p.spec.node_name and asks_for_gpus(p)]
        if pods:
            self.people[0].checkpoint(self.chance.choice(pods).metadata.name)

    def dies(self) -> None:
        self.world.kill(self.chance.choice(["server", "controller-0", "extender", "scheduler"]))
        self.world.run(30)


@pytest.mark.parametrize("seed", some([1], of=range(30)))
def test_in_a_week_of_everyday_life_no_law_is_broken(seed: int, new_world: Worlds) -> None:
    world = new_world(NODES, policy=EVERYDAY)
    week = Week(world, seed)
    week.play()
    settled(world, 600)
    assert week.created > 15
    assert world.templates() == 0
