"""A thousand pods without a booking and two hundred with one, at once, for ten minutes of everything.

``SOAK_MINUTES=30 pytest -s tests/long/churn/soak.py`` takes a third of that; a churn prints its seed, and
``FIRE_SEED=<that seed>`` draws the same again.
"""

import os
import sys

import pytest

from tests.long.churn.churning import Scale
from tests.long.churn.conftest import Churn

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(0)]

SECONDS = 60 * float(os.environ.get("SOAK_MINUTES", "30")) / 3
ALL = Scale(nodes=125, crowd=1000, booked=200, seconds=SECONDS)


def test_every_law_holds_for_a_thousand_pods_and_two_hundred_booked_ones(churn: Churn) -> None:
    churned = churn(ALL)
    assert churned.crowd.taken
    assert churned.crowd.raced
    sys.stdout.write("".join(f"{one}\n" for one in sorted(churned.striking.recovered, key=str)))
