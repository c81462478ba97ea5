"""Waiting while the laws are watched, and telling how it stands meanwhile."""

from collections.abc import Callable

from devcluster.wait import Stopwatch, poll
from tests.laws.live import LiveWatch

EVERY = 0.5
"""Seconds between two looks."""


def watched(
    laws: LiveWatch,
    condition: Callable[[], bool],
    *,
    seconds: float,
    tell: Callable[[], None],
    tells_every: float,
) -> bool:
    """Whether something comes about in time; a law that is broken meanwhile is raised at once.

    Args:
        laws: asked at every turn.
        condition: that is waited for.
        seconds: that it may take.
        tell: called now and then, to say how it stands.
        tells_every: seconds between two of these.
    """
    said = Stopwatch()

    def ask() -> bool:
        nonlocal said
        laws.check()
        if said.seconds > tells_every:
            said = Stopwatch()
            tell()
        return condition()

    return bool(poll(ask, seconds=seconds, every=EVERY))
