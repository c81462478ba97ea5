"""Waiting while the laws are watched, with a report of the progress now and then."""

from collections.abc import Callable

from devcluster.wait import Stopwatch, poll
from tests.laws.live import LiveWatch

EVERY = 0.5
"""Seconds between two checks."""


def watched(
    laws: LiveWatch,
    condition: Callable[[], bool],
    *,
    seconds: float,
    report: Callable[[], None],
    report_every: float,
) -> bool:
    """Whether something comes about in time; a law that is broken meanwhile is raised at once.

    Args:
        laws: asked at every turn.
        condition: that is waited for.
        seconds: that it may take.
        report: called now and then, to print the progress.
        report_every: seconds between two of these.
    """
    since_report = Stopwatch()

    def ask() -> bool:
        nonlocal since_report
        laws.check()
        if since_report.seconds > report_every:
            since_report = Stopwatch()
            report()
        return condition()

    return bool(poll(ask, seconds=seconds, every=EVERY))
