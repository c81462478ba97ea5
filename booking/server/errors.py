"""Errors of the booking service; every text is complete sentences for people."""

from collections.abc import Sequence
from datetime import datetime

from booking.server.evaluation.alternatives import Alternative
from booking.server.records import Violation


class RefusedError(Exception):
    """The request cannot be granted; nothing was changed."""

    def __init__(
        self,
        violations: Sequence[Violation],
        earliest_start: datetime | None = None,
        alternatives: Sequence[Alternative] = (),
    ) -> None:
        super().__init__(" ".join(violation.message for violation in violations))
        self.violations = tuple(violations)
        """Everything that is wrong, at least one."""
        self.earliest_start = earliest_start
        """When a booking of this size and length could start; None if never, or if the time is not the
        problem."""
        self.alternatives = tuple(alternatives)
        """Requests that would be granted now."""


class UnknownError(Exception):
    """There is nothing of that name, or nothing that this user may see."""


class UnknownBookingError(UnknownError):
    """This user has no booking of that id, and is not an administrator who could see others'."""


class UnknownBlockError(UnknownError):
    """There is no maintenance block of that id."""


class UnknownExemptionError(UnknownError):
    """There is no exemption of that id."""


class UnknownPodError(UnknownError):
    """There is no pod of that name."""


class UnknownGpuError(UnknownError):
    """There is no such GPU, or no such node."""


class NotAllowedError(Exception):
    """The user asked for something that only administrators may do."""


class StaleError(Exception):
    """The booking has changed since the client read it; nothing was changed."""

    def __init__(self, message: str, *, version: str) -> None:
        super().__init__(message)
        self.version = version
        """The current version of the booking."""


class KeyReusedError(Exception):
    """An idempotency key that was used for another request; nothing was changed."""


class ClusterError(Exception):
    """The Kubernetes API server did not do what was requested; a retry may help."""


class StoreError(Exception):
    """The booking database cannot be used."""


class StoreGoneError(StoreError):
    """The database's file is missing, or is not the one that was opened (law L9)."""
