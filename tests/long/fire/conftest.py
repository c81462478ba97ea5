"""What every test under fire is given: a way to play a short story, and one with harm in it."""

import sys
from collections.abc import Iterator
from typing import Protocol

import pytest

from devcluster.cluster import Cluster
from devcluster.demo.reporter import Reporter
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import PATIENCE, Playground
from tests.e2e.testbed import Testbed
from tests.laws.live import LiveWatch
from tests.long.fire.harm import SEED, Blow, Harm, new_seed
from tests.long.fire.patience import Patience, Patient
from tests.long.fire.short_story import VICTIM, Interlude, ShortStory, expected, may_leave


class StoryMaker(Protocol):
    """Makes a story in this test's namespace; ``play`` it once."""

    def __call__(
        self,
        interlude: Interlude = ...,
        *,
        patience: float = ...,
        rival: bool = ...,
        runtimes_die: bool = ...,
        may_leave: tuple[str, ...] = ...,
    ) -> ShortStory: ...


class UnderFire(Protocol):
    """Plays a story while these blows fall, and asserts that it ends as it should."""

    def __call__(self, blows: tuple[Blow, ...], *, also: Interlude = ...) -> ShortStory: ...


@pytest.fixture
def seed() -> str:
    """What the moments are drawn from; printed, so that they can be had again."""
    drawn = new_seed()
    sys.stdout.write(f"To have the same moments again: {SEED}={drawn}\n")
    return drawn


@pytest.fixture(scope="module")
def elections(testbed: Testbed) -> Iterator[Parts]:
    """What strikes a kube-scheduler strikes one that must hold its Lease, as the chart's."""
    with testbed.parts.electing(), testbed.pinned():
        yield testbed.parts


@pytest.fixture
def story(elections: Parts, alice: Person, bob: Person, playground: Playground) -> Iterator[StoryMaker]:
    """A story to be played; whatever was booked in it is given back in the end."""
    assert elections

    def make(
        interlude: Interlude = lambda _moment: None,
        *,
        patience: float = PATIENCE,
        rival: bool = True,
        runtimes_die: bool = False,
        may_leave: tuple[str, ...] = (VICTIM,),
    ) -> ShortStory:
        return ShortStory(
            alice,
            bob,
            playground,
            interlude=interlude,
            patience=patience,
            rival=rival,
            runtimes_die=runtimes_die,
            may_leave=may_leave,
        )

    yield make
    for person in (alice, bob):
        Patient(person, playground, Patience(playground, PATIENCE)).release_all()


@pytest.fixture
def under_fire(cluster: Cluster, story: StoryMaker, laws: LiveWatch) -> UnderFire:
    """A story with harm in it."""

    def play(blows: tuple[Blow, ...], *, also: Interlude = lambda _moment: None) -> ShortStory:
        reporter = Reporter(sys.stdout)
        harm = Harm(cluster, blows, fault=laws.fault, say=lambda line: reporter.say("fire", line))

        def interlude(moment: str) -> None:
            also(moment)
            harm.interlude(moment)

        on_nodes = [blow.target for blow in blows if "/" in blow.target]
        runtimes = [blow for blow in blows if blow.target.endswith("/containerd") and blow.kind == "killed"]
        short = story(interlude, rival=not on_nodes, runtimes_die=bool(runtimes), may_leave=may_leave(blows))
        try:
            end = short.play()
            assert end == expected(short.victim)
        except AssertionError:
            reporter.say("fire", f"all logs are kept in {cluster.keep_logs()}")
            raise
        assert on_nodes or not short.refused, short.refused
        return short

    return play
