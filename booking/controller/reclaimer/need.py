"""What a waiting pod needs devices for, and of which model."""

from dataclasses import dataclass

from cluster.objects.bookings import Booking


@dataclass(frozen=True, slots=True)
class Need:
    """Why devices are kept for a pod that waits."""

    model: str
    """In label form: the one model of which it gets its devices."""
    resource: str
    """The name of the extended resource that it requests."""
    booking: Booking | None = None
    """The booking that covers the pod; its plan says on which nodes the pod may be placed."""


def need_of(booking: Booking) -> Need:
    """The need of a pod that a booking covers."""
    return Need(model=booking.spec.model, resource=booking.spec.resource, booking=booking)
