"""How soon a part of ours works again during the churn: 1,200 pods come and go on 125 simulated nodes.

Every part is killed at a random moment, together with the other faults of the churn. The floor is started
when the part is back, under the same load: it loads the same program and reads all pods.
"""

from collections.abc import Iterator
from typing import Final

from cluster.process.clock import SystemClock
from devcluster.demo.access import administrator
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.churn.churning import ROUND, Churning, Scale
from tests.long.churn.conftest import LEEWAY
from tests.long.churn.ground import ground
from tests.long.churn.recoveries import slowest

SEED: Final = "bench"
"""The same moments in every run."""
ROUNDS: Final = 2
SCALE: Final = Scale(nodes=125, crowd=1000, booked=200, seconds=(ROUNDS - 1) * ROUND + 1)
_KIND: Final = Kind(
    "recovery-churn",
    f"the same at a random moment of the churn, to a whole pass of the reclaimer: 1,200 pods, 125 nodes; the"
    f" slowest of five parts, median of {ROUNDS} rounds",
    "s",
    "started after it: Python loading the program, and reading all pods",
    target=Target(value=5),
)


def measure(_lab: Lab) -> Iterator[Row]:
    """A whole churn on a cluster of its own, with the laws watched."""
    with (
        ground(SCALE.nodes) as standing,
        LiveWatch(
            administrator(standing.cluster), SystemClock(), checkpoints_of(standing.cluster), leeway=LEEWAY
        ) as laws,
    ):
        laws.begin("churn")
        churning = Churning(standing, laws, SEED, SCALE)
        churning.play()
        laws.finish()
    value, floor = slowest(churning.striking.recovered)
    yield _KIND.row(value, floor)


MEASURE: Final = Measure("churn", (_KIND,), measure, on_cluster=True)
