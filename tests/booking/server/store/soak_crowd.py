"""The crowd of ``test_crowd.py`` with one seed after the other, in turns on both databases.

``SOAK_MINUTES=30 pytest -s tests/booking/server/store/soak_crowd.py`` takes a third of that.
``HISTORY_SEED=<a seed>`` begins with that seed; otherwise every soak begins with another one.
"""

import os
import secrets
import sys
from contextlib import closing
from itertools import count, product
from pathlib import Path
from statistics import mean
from typing import Final

import pytest

from booking.server.store import open_store
from cluster.process.clock import SystemClock
from tests.booking.server.store.crowd import (
    MISSED,
    MOST_MISSED,
    ON_ONE_NODE,
    SCENARIOS,
    crowd,
    unfounded,
    wrong,
)
from tests.databases import KINDS, NEEDS_A_SERVER, a_database

pytestmark = [pytest.mark.timeout(0), NEEDS_A_SERVER]

SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "30")) / 3
MANY: Final = 10
"""Number of crowds from which the mean is meaningful."""
SEED = int(os.environ.get("HISTORY_SEED", secrets.randbelow(10**6)))


def test_l5_every_crowd_gets_exactly_the_existing_gpus(tmp_path: Path) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + SECONDS
    shares = list[float]()
    for seed in count(SEED):
        for kind, (name, scenario) in product(KINDS, SCENARIOS.items()):
            here = f"{kind}, {name}, seed {seed}"
            with closing(open_store(a_database(kind, tmp_path / here.replace(", ", "-")))) as store:
                answers = crowd(store, scenario, seed, each=200)
                sys.stdout.write(f"{here}: {len(answers.kept)} kept, {len(answers.refused)} refused\n")
                assert list(wrong(store, scenario, answers)) == [], here
            if scenario is ON_ONE_NODE:
                shares.append(len(unfounded(scenario, answers)) / len(answers.refused))
                assert shares[-1] < MOST_MISSED, here
        if clock.monotonic() > deadline:
            break
    sys.stdout.write(
        f"on one node {mean(shares):.4f} of the refusals were needless, at worst {max(shares):.4f}\n"
    )
    assert mean(shares) < MISSED or len(shares) < MANY, f"from seed {SEED} on"
