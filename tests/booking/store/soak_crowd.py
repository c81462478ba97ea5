"""The crowd of ``test_crowd.py`` with one seed after the other, in turns on both databases.

``SOAK_MINUTES=30 pytest -s tests/booking/store/soak_crowd.py`` takes a third of that.
``HISTORY_SEED=<a seed>`` begins with that seed, else every soak with another one.
"""

import os
import secrets
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from booking.store import open_store
from cluster.runtime.clock import SystemClock
from tests.booking.store.crowd import crowd, wrong
from tests.databases import KINDS, a_database

pytestmark = pytest.mark.timeout(0)

SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "30")) / 3
SEED = int(os.environ.get("HISTORY_SEED", secrets.randbelow(10**6)))


def test_l5_every_crowd_gets_exactly_what_there_is(tmp_path: Path) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + SECONDS
    for seed in count(SEED):
        for kind in KINDS:
            folder = tmp_path / f"{seed}"
            with closing(open_store(a_database(kind, folder))) as store:
                told = crowd(store, seed, each=200)
                sys.stdout.write(f"{kind}, seed {seed}: {len(told.kept)} kept, {len(told.refused)} refused\n")
                assert list(wrong(store, told)) == [], f"{kind}, seed {seed}"
        if clock.monotonic() > deadline:
            return
