"""A thousand pods without a booking and two hundred with one, in a minute in which everything fails once."""

import sys

import pytest

from tests.long.churn.churning import Scale
from tests.long.churn.conftest import Churn
from tests.long.churn.ground import CONTROLLERS
from tests.long.churn.recoveries import by_part
from tests.long.churn.striking import READY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3000)]

MINUTE = Scale(nodes=125, crowd=1000, booked=200, seconds=60)


def test_every_law_holds_and_in_the_end_every_booked_pod_runs(churn: Churn) -> None:
    churned = churn(MINUTE)
    assert churned.crowd.taken, "nobody was taken away: nothing was tried"
    assert churned.crowd.hung, "no victim hung in Terminating"
    assert churned.striking.refused, "no clock was wrong"
    assert churned.crowd.raced, "nobody was quick enough to create again what was taken away"
    recovered = churned.striking.recovered
    sys.stdout.write("".join(f"{one}\n" for one in sorted(recovered, key=str)))
    assert by_part(recovered).keys() >= READY
    assert set(CONTROLLERS) <= churned.striking.led, "one controller alone has reclaimed"
