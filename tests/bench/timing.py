"""How long calls take, measured in turns so that a loaded machine slows a call and its floors alike."""

import time
from collections.abc import Callable

Work = Callable[[], object]


def seconds(work: Work) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turns(count: int, *works: Work) -> tuple[list[float], ...]:
    """Seconds of ``count`` calls of each, in turns, after some calls that are not counted."""
    for _ in range(max(3, count // 10)):
        for work in works:
            work()
    rounds = [[seconds(work) for work in works] for _ in range(count)]
    return tuple(list(times) for times in zip(*rounds, strict=True))
