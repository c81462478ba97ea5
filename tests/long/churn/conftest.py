"""What a churn is given: a seed, and a way to play one of some size and to judge it."""

import sys
from collections.abc import Callable
from typing import Final

import pytest

from cluster.process.clock import SystemClock
from devcluster.demo.access import administrator
from devcluster.product import gpu_scheduler
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.churn.churning import Churning, Scale
from tests.long.churn.ground import ground
from tests.long.fire.harm import SEED, new_seed

Churn = Callable[[Scale], Churning]
LEEWAY: Final = 15.0
"""Seconds: the holds of one plan for two hundred pods are written one after the other."""


@pytest.fixture
def seed() -> str:
    """What everything is drawn from; printed, so that it can be had again."""
    drawn = new_seed()
    sys.stdout.write(f"To have the same churn again: {SEED}={drawn}\n")
    return drawn


@pytest.fixture
def churn(seed: str) -> Churn:
    """Plays one on a cluster of its own; every law is watched from the first pod to the last."""

    def play(scale: Scale) -> Churning:
        with (
            ground(scale.nodes) as site,
            LiveWatch(
                administrator(site.cluster),
                SystemClock(),
                checkpoints_of(site.cluster),
                leeway=LEEWAY,
            ) as laws,
        ):
            laws.begin("churn")
            churning = Churning(site, laws, seed, scale)
            churning.play()
            laws.finish()
            assert set(site.parts.crashed()) <= {gpu_scheduler.NAME}
        return churning

    return play
