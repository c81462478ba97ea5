"""Whether the extender may decide now: the checks of law L6 about the whole cluster, in one answer."""

from extender.state import Readiness


def first_obstacle(*checks: Readiness) -> Readiness:
    """The first thing that is wrong, None when nothing is."""
    return lambda: next((trouble for check in checks if (trouble := check())), None)
