"""How long calls take, measured in turns so that a loaded machine slows the thing and its floor alike."""

import time
from collections.abc import Callable

Work = Callable[[], object]


def seconds(work: Work) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turns(count: int, work: Work, floor: Work) -> tuple[list[float], list[float]]:
    """Seconds of ``count`` calls of each, one after the other, after some that are not counted."""
    for _ in range(max(3, count // 10)):
        work()
        floor()
    pairs = [(seconds(work), seconds(floor)) for _ in range(count)]
    return [ours for ours, _ in pairs], [least for _, least in pairs]
