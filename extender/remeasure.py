"""Compares our clock with the API server's again while they differ: nothing else would ask it then.

Only an answer tells its clock, watches that stay open bring none, and an extender whose clock is no good
binds nobody. ``__main__`` plays it again and again in a thread of its own.
"""

from typing import Final

from cluster.kube.errors import ApiError
from cluster.kube.port import Kube, Selection
from cluster.kube.resources import LEASES
from extender.state import Readiness

EVERY: Final = 5.0
"""Seconds."""


class Remeasure:
    """Asks the API server for as good as nothing."""

    def __init__(self, kube: Kube, wrong_clock: Readiness, *, namespace: str) -> None:
        """Args: wrong_clock: what is wrong with our clock by the newest answer; namespace: of our Leases."""
        self._kube = kube
        self._wrong_clock = wrong_clock
        self._selection = Selection(namespace=namespace)

    def reconcile(self) -> None:
        """One round."""
        if not self._wrong_clock():
            return
        try:
            self._kube.list(LEASES, self._selection, limit=1)
        except ApiError:
            return  # a refusal has told its clock, too; without an answer it is asked again
