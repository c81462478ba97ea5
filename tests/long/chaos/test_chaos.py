"""Under load everything of the product and below it is killed at random, and every law and guarantee holds.

``CHAOS_SEED=... CHAOS_SECONDS=... pytest -s tests/long/chaos/test_chaos.py`` plays the same again; ``make
chaos`` plays for fifteen minutes.
"""

import os
import sys
from typing import Final

import pytest

from cluster.process.clock import SystemClock
from devcluster.demo.access import administrator
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.chaos.chaos import Chaos
from tests.long.chaos.ground import NODES, ground
from tests.long.chaos.plan import planned
from tests.long.chaos.recoveries import table
from tests.long.fire.harm import new_seed

SECONDS: Final = float(os.environ.get("CHAOS_SECONDS", "60"))
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2 * SECONDS + 3600)]  # images may be built first
SEED: Final = "CHAOS_SEED"
LEEWAY: Final = 15.0
"""Seconds between the read and the write of an honest decision. While the API server is away nothing is
written. When it is back our watch may be there before a part's, which tries again every few seconds and
decides meanwhile on what it knew: its writes are guarded by resourceVersions, what else was true is not."""


def test_every_law_and_every_guarantee_holds_whatever_is_killed() -> None:
    seed = new_seed(SEED)
    sys.stdout.write(f"To have the same harm again: {SEED}={seed} CHAOS_SECONDS={SECONDS:.0f}\n")
    harms = planned(seed, SECONDS, NODES)
    sys.stdout.write("".join(f"  {harm}\n" for harm in harms))
    with ground() as site:
        kube, checkpoints = administrator(site.cluster), checkpoints_of(site.cluster)
        with LiveWatch(kube, SystemClock(), checkpoints, leeway=LEEWAY) as laws:
            laws.begin("chaos")
            chaos = Chaos(site, laws, seed)
            chaos.play(harms)
    sys.stdout.write("".join(f"{line}\n" for line in table(chaos.striking.recovered)))
    assert len(chaos.striking.recovered) == len(harms)
    assert site.guaranteed.bookings
    assert all(planner.deeds[deed] for planner in chaos.load.planners for deed in planner.deeds)
