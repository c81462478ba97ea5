"""Killed with -9 at every single call by which a part writes for an eviction, a comeback, an end, a booking.

Which calls these are is read from an undisturbed round, so a new one is covered by itself. At each the part
is killed twice in one round: when it is about to write, and again when it has started again and has written,
before it gets the answer. `soak_every_call.py` kills it once a round. Node agents and kube-scheduler write
none of these: see `points.py`.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import Testbed
from tests.laws.live import LiveWatch
from tests.long.fire.give_and_take import GiveAndTake
from tests.long.fire.killing import Doom, Killing, reporting
from tests.long.fire.points import SIDES
from tests.long.fire.proxied import Proxied, proxied

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def behind(testbed: Testbed) -> Iterator[Proxied]:
    with proxied(testbed.cluster, testbed.parts) as running, testbed.pinned():
        yield running


def test_killed_before_and_after_every_single_write_everything_ends_the_same(
    behind: Proxied, alice: Person, bob: Person, playground: Playground, laws: LiveWatch
) -> None:
    killing = Killing(behind, GiveAndTake(alice, bob, playground, "node-a"), reporting(laws))
    points = killing.undisturbed()
    killing.carry_out({half: [Doom(point, SIDES) for point in each] for half, each in points.items()})
    assert killing.missing() == []
