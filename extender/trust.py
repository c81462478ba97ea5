"""Whether the extender may decide now: the checks of law L6 about the whole cluster, in one answer."""

from extender.state import Readiness


def first_unready_reason(*checks: Readiness) -> Readiness:
    """The first thing that is wrong, None when nothing is."""
    return lambda: next((problem for check in checks if (problem := check())), None)
