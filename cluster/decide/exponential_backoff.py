"""The pause after consecutive failures, which doubles with each of them. Pure.

``cluster.kube.backoff`` adds jitter to the pauses of requests.
"""

from typing import Final

_DOUBLINGS: Final = 64
"""Upper limit of doublings: failures may go on for days, until the number would overflow."""


def exponential_backoff(failures: int, *, first: float, longest: float) -> float:
    """Seconds to wait after so many consecutive failures; 0 if there was none.

    Args:
        failures: their number, including the last one.
        first: seconds after the first of them.
        longest: seconds that no pause exceeds.

    >>> [exponential_backoff(failures, first=1.0, longest=5.0) for failures in range(6)]
    [0.0, 1.0, 2.0, 4.0, 5.0, 5.0]
    """
    return min(first * 2.0 ** min(failures - 1, _DOUBLINGS), longest) if failures > 0 else 0.0
