"""How long the kubelet waits for the choice of GPUs that fit together best, if the scheduler has chosen none.

All scores differ. Real machines have few different ones, and none is slower because of that.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from deviceplugin.allocation.best_effort import EXACT, best_effort
from deviceplugin.allocation.link_scores import Scores
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import in_turns

CALLS: Final = 40
COUNT: Final = EXACT // 2
_KIND: Final = Kind(
    "links-choice",
    f"the {COUNT} of {EXACT} GPUs that are linked best, exactly, p50",
    "ms",
    "every set tried out",
    target=Target(value=5.0),
)


def measure(_lab: Lab) -> Iterator[Row]:
    """The number of GPUs for which there are most sets."""
    gpus = [f"GPU-{number:02}" for number in range(EXACT)]
    scores = _scores(gpus)
    if tuple(best_effort(scores, gpus, frozenset(), COUNT)) != _tried_out(scores, gpus):
        raise RuntimeError("The choice is not the best one; what is measured is not its work.")
    ours, floor = in_turns(
        CALLS, lambda: best_effort(scores, gpus, frozenset(), COUNT), lambda: _tried_out(scores, gpus)
    )
    yield _KIND.row(1000 * percentile(ours, 50), 1000 * percentile(floor, 50))


def _scores(gpus: list[str]) -> Scores:
    found: dict[str, dict[str, int]] = {gpu: {} for gpu in gpus}
    for number, (one, other) in enumerate(combinations(gpus, 2)):
        # 379 and 1000 have no common divisor: no two scores are equal, and they rise and fall.
        found[one][other] = found[other][one] = 10 * (1 + number * 379 % 1000)
    return found


def _tried_out(scores: Scores, gpus: list[str]) -> tuple[str, ...]:
    return max(
        combinations(gpus, COUNT),
        key=lambda chosen: sum(scores[one][other] for one, other in combinations(chosen, 2)),
    )


MEASURE: Final = Measure("links", (_KIND,), measure)
