"""The story that ``make run`` plays (devcluster/demo/story.py) on a world: its steps, and moments between.

Every moment has a name; a test that plays the story may do harm at each of them.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.errors import RefusedError
from cluster import names
from cluster.objects.pods import is_terminating
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import Value, devices, has_left, is_back, is_gone, runs, state_of, uid_of, waits
from tests.scenarios.world import World

SHORT: Final = Limits(shortest=Duration(seconds=10), cooldown=Duration())
"""The policy of the last chapter."""
SETTLES_WITHIN: Final = 90.0
"""Seconds that a step may take, faults and all."""

FIRST_ACT: Final = (
    "nothing yet",
    "bob asks",
    "bob runs",
    "alice books",
    "alice is refused",
    "alice asks",
    "kept",
    "leaving",
    "gone",
    "bound",
    "served",
    "came back",
    "released",
    "ends",
    "has ended",
    "the fifth is served",
)
"""Up to the moment at which she has given her booking back, and bob's fifth pod has her GPU."""
SECOND_ACT: Final = ("another policy", "alice books again", "asked again", "served again", "over", "the end")
"""A short booking that ends by its time."""

Harm = Callable[[World, str], object]


def nothing(_world: World, _moment: str) -> None:
    """Nobody steps in between."""


class Story:
    """Plays it on a world of two nodes with two A100s each."""

    def __init__(self, world: World, harm: Harm = nothing, *, elsewhere: bool = False) -> None:
        """Args: elsewhere: another pod may leave than the one that loses least, whose node does not serve."""
        self._world = world
        self._harm = harm
        self._elsewhere = elsewhere
        self.moments: list[str] = []
        self.victims: list[str] = []
        """Who has made way for alice, in order."""

    def play(self) -> Value:
        """Both acts; the state at the end, when nothing is going on any more."""
        self._first_act()
        self._second_act()
        return self._end()

    def play_first_act(self) -> Value:
        """The first act alone."""
        self._first_act()
        return self._end()

    def play_second_act(self) -> Value:
        """The second act alone, from the moment at which bob has all GPUs."""
        self._four_run()
        self._second_act()
        return self._end()

    def _end(self) -> Value:
        self._world.run(SETTLES_WITHIN)
        self._world.laws.finish()
        return state_of(self._world)

    # --- acts ------------------------------------------------------------------------------------------
    def _first_act(self) -> None:
        self._at("nothing yet")
        self._five_for_four()
        booking = self._books()
        self._taken("alice-1", "bob-3", FIRST_ACT[5:12])
        self._released(booking)

    def _second_act(self) -> None:
        world = self._world
        world.server.policy = SHORT
        world.kill("server")
        world.bob.create(a_pod("bob-6"))
        self._until(lambda: waits(world, "bob-6"), "bob-6 waits")
        self._at("another policy")
        world.alice.book(lasting=timedelta(seconds=90))
        self._at("alice books again")
        self._taken("alice-2", "bob-2", ("asked again", "served again"))
        hers, gpu = uid_of(world, "alice-2"), devices(world.pod("alice-2"))
        world.until(lambda: has_left(world, "alice-2", hers), "alice-2 ends", within=180)
        self._at("over")
        self._until(lambda: is_back(world, "alice-2", hers), "alice-2 is back")
        self._until(lambda: runs(world, "bob-6") and devices(world.pod("bob-6")) == gpu, "bob-6 is served")
        self._at("the end")

    # --- chapters --------------------------------------------------------------------------------------
    def _four_run(self) -> None:
        four = [f"bob-{number}" for number in range(1, 5)]
        for name in four:
            self._world.bob.create(a_pod(name))
        self._at("bob asks")
        self._until(lambda: runs(self._world, *four), "four pods run")

    def _five_for_four(self) -> None:
        world = self._world
        self._four_run()
        world.bob.create(a_pod("bob-5"))
        self._until(lambda: waits(world, "bob-5"), "the fifth waits")
        self._at("bob runs")
        world.run(20)

    def _books(self) -> str:
        booking = self._world.alice.book()
        self._at("alice books")
        with pytest.raises(RefusedError) as refused:
            self._world.alice.book(lasting=timedelta(days=20))
        assert {v.rule for v in refused.value.violations} >= {"no-active-overlap", "cooldown", "longest"}
        assert refused.value.earliest_start is not None
        self._at("alice is refused")
        return booking

    def _taken(self, name: str, cheapest: str, moments: tuple[str, ...]) -> None:
        """Alice's pod gets the GPU of the pod that loses least, which comes back without one."""
        world = self._world
        world.bob.checkpoint(cheapest)
        uids = self._bobs()
        gpus = {one: devices(world.pod(one)) for one in uids}
        may_leave = [one for one in uids if gpus[one]] if self._elsewhere else [cheapest]

        def victim() -> str | None:
            return next((one for one in may_leave if has_left(world, one, uids[one])), None)

        def is_so(fate: Callable[[World, str, str], bool]) -> bool:
            one = victim()
            return one is not None and fate(world, one, uids[one])

        world.alice.create(a_pod(name))
        steps: dict[str, Callable[[], object]] = {
            "kept": lambda: self._is_kept(name),
            "leaving": lambda: is_so(has_left),
            "gone": lambda: is_so(is_gone),
            "bound": lambda: devices(world.pod(name)) == gpus.get(victim() or ""),
            "served": lambda: runs(world, name),
            "served again": lambda: runs(world, name),
            "came back": lambda: is_so(is_back),
        }
        for moment in moments:
            if moment in steps:
                self._until(steps[moment], f"{name}: {moment}")
            self._at(moment)
        self._until(lambda: is_so(is_back), f"{' or '.join(may_leave)} is back")
        left = victim()
        assert left is not None
        assert devices(world.pod(name)) == gpus[left]
        assert self._bobs() | {left: uids[left]} == uids, "Nobody else is touched."
        self.victims.append(left)

    def _released(self, booking: str) -> None:
        world = self._world
        hers, gpu = uid_of(world, "alice-1"), devices(world.pod("alice-1"))
        world.alice.release(booking)
        self._at("released")
        self._until(lambda: has_left(world, "alice-1", hers), "alice-1 ends")
        self._at("ends")
        self._until(lambda: is_back(world, "alice-1", hers), "alice-1 is back")
        self._at("has ended")
        self._until(lambda: runs(world, "bob-5") and devices(world.pod("bob-5")) == gpu, "bob-5 is served")
        self._at("the fifth is served")

    # --- small words -----------------------------------------------------------------------------------
    def _until(self, condition: Callable[[], object], what: str) -> None:
        self._world.until(condition, what, within=SETTLES_WITHIN)

    def _at(self, moment: str) -> None:
        self.moments.append(moment)
        self._harm(self._world, moment)

    def _is_kept(self, name: str) -> bool:
        pod = self._world.pod(name)
        return pod is not None and (
            bool(pod.spec.node_name) or pod.metadata.annotation(names.HOLD) is not None
        )

    def _bobs(self) -> dict[str, str]:
        """Name -> uid of bob's pods that have not been deleted."""
        return {
            pod.metadata.name: pod.metadata.uid
            for pod in self._world.pods()
            if pod.metadata.name.startswith("bob") and not is_terminating(pod)
        }
