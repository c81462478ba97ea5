"""Guarantees a change only if it can be kept: the mirror is healthy before it, and has written it afterwards.

A guarantee takes effect when its Booking object is written: the controller and the extender see nothing else.
"""

from collections.abc import Callable
from typing import Final

from booking.server.records import Record
from booking.server.web.interfaces import Mirrored
from booking.server.web.problems import ProblemError, unavailable
from cluster.process.probes import Check

PATIENCE: Final = 10.0
"""Seconds that an answer waits for the mirror."""

NOT_YET: Final = (
    "It is stored, but not written to the cluster yet: the Kubernetes API server does not answer in time."
    " It will be as soon as possible; until then it is not guaranteed. Ask again with GET."
)


class MirrorBarrier:
    """Called before and after every change of a booking."""

    def __init__(self, mirror: Mirrored, not_guaranteed_reason: Check, unknown_capacity: Check) -> None:
        """Create it.

        Args:
            mirror: writes to the cluster.
            not_guaranteed_reason: why no change can be guaranteed now.
            unknown_capacity: why the number of GPUs is not known now.
        """
        self._mirror = mirror
        self._not_guaranteed_reason = not_guaranteed_reason
        self._unknown_capacity = unknown_capacity

    def demand(self) -> None:
        """Refuse a change that could not be mirrored.

        Raises:
            ProblemError: 503.
        """
        self._refuse(self._not_guaranteed_reason())

    def require_capacity(self) -> None:
        """Refuse what cannot be judged, because it is not known how many GPUs there are.

        Raises:
            ProblemError: 503.
        """
        self._refuse(self._unknown_capacity())

    def answered_before(self, replayed: Callable[[], Record | None], *, judges: bool = True) -> Record | None:
        """None if changes can be guaranteed now; else the earlier answer to this very request.

        Args:
            replayed: returns the earlier answer to the request; None: it is new.
            judges: whether the answer depends on the capacity.

        Raises:
            ProblemError: 503, nothing can be guaranteed, and this is a new request.
            KeyReusedError: the key was used for another request.
        """
        try:
            if judges:
                self.require_capacity()
            self.demand()
        except ProblemError:
            before = replayed()
            if before is None:
                raise
            return before
        return None

    def written(self, record: Record) -> bool:
        """Whether the stored record is written in the cluster; waits for it."""
        self._mirror.trigger()
        return self._mirror.written(record.change, PATIENCE)

    def _refuse(self, unready_reason: str | None) -> None:
        if unready_reason:
            raise unavailable(f"Nothing was stored, because nothing can be guaranteed now. {unready_reason}")
