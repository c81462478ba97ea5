"""Killed once a round, before or after each single write: slower than `test_every_api_call.py`, stricter.

There a part dies twice in one round, and could go on only because it died again.
``pytest -s tests/long/fire/soak_every_call.py`` takes some five minutes.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import Testbed
from tests.laws.live import LiveWatch
from tests.long.fire.give_and_take import GiveAndTake
from tests.long.fire.killing import Doom, Killing, reporting
from tests.long.fire.points import SIDES, Side
from tests.long.fire.proxied import Proxied, proxied

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(0)]


@pytest.fixture(scope="module")
def behind(testbed: Testbed) -> Iterator[Proxied]:
    with proxied(testbed.cluster, testbed.parts) as running, testbed.pinned():
        yield running


@pytest.mark.parametrize("side", SIDES)
def test_killed_on_one_side_of_every_single_write_everything_ends_the_same(
    behind: Proxied, alice: Person, bob: Person, playground: Playground, laws: LiveWatch, side: Side
) -> None:
    killing = Killing(behind, GiveAndTake(alice, bob, playground, "node-a"), reporting(laws))
    points = killing.undisturbed()
    killing.carry_out({half: [Doom(point, (side,)) for point in each] for half, each in points.items()})
    assert killing.missing() == []
