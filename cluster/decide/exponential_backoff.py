"""The pause after failures in a row, which doubles with each of them: pure.

``cluster.kube.backoff`` spreads the pauses of requests over time.
"""

from typing import Final

_DOUBLINGS: Final = 64
"""At most: failures may go on for days, and no number is large enough for that."""


def exponential_backoff(failures: int, *, first: float, longest: float) -> float:
    """Seconds to wait after so many failures in a row; 0 where there was none.

    Args:
        failures: how many there were, the last one included.
        first: seconds after the first of them.
        longest: seconds that no pause exceeds.

    >>> [exponential_backoff(failures, first=1.0, longest=5.0) for failures in range(6)]
    [0.0, 1.0, 2.0, 4.0, 5.0, 5.0]
    """
    return min(first * 2.0 ** min(failures - 1, _DOUBLINGS), longest) if failures > 0 else 0.0
