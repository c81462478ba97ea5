"""Each of our parts is killed with -9 at a random moment of the story, and the story ends the same."""

import pytest

from devcluster.product import booking_controller, booking_server, extender, gpu_scheduler, node_agent
from tests.e2e.session import NODES
from tests.long.fire.conftest import UnderFire
from tests.long.fire.harm import drawn
from tests.long.fire.short_story import LASTS

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "targets",
    [
        (*(f"{node}/{node_agent.NAME}" for node in NODES), booking_server.NAME),
        # The last two keep everybody waiting until their Leases have run out: together that costs less.
        (extender.NAME, gpu_scheduler.NAME, booking_controller.NAME),
    ],
    ids=["node agents and booking server", "extender, kube-scheduler and controller"],
)
def test_parts_killed_at_random_moments_do_not_change_the_end(
    under_fire: UnderFire, seed: str, targets: tuple[str, ...]
) -> None:
    under_fire(drawn(seed, targets, LASTS))
