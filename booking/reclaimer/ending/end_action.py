"""What becomes of a pod when the booking that covers it ends, and how that is told. Pure.

One place says it for the warnings before, for the end itself, and for who is spared because of it.
"""

from typing import Final

from booking import end_effects
from booking.eviction_settings import EndAction, EvictionSettings
from booking.reclaimer.evictions.comeback import is_owned
from booking.reclaimer.evictor import Back
from booking.wording import instant
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

NEVER: Final[Back] = "never"
WITHOUT_GPU: Final[Back] = "without-gpu"

_NO_GPU_YET: Final = "This pod has no GPU yet, and then goes on waiting without a booking."


def action(pod: Pod, terms: EvictionSettings) -> EndAction:
    """What the settings say about this pod."""
    return terms.end_action_with_controller if is_owned(pod) else terms.end_action_without_controller


def goes(pod: Pod, terms: EvictionSettings) -> bool:
    """Whether the pod ends with its booking; who only loses its booking stays as long as it may."""
    return action(pod, terms) != "demote"


def back(terms: EvictionSettings) -> Back:
    """Whether bare pods that end with a booking come back: it is written down when it is decided who ends."""
    return NEVER if terms.end_action_without_controller == "delete" else WITHOUT_GPU


def decided_back(booking: Booking) -> Back:
    """What was written down; a booking that says nothing was decided when all of them came back."""
    return NEVER if booking.status.back == NEVER else WITHOUT_GPU


def expected(pod: Pod, terms: EvictionSettings) -> str:
    """What its owner is told before the end: what will happen to this pod, and what to do."""
    if not pod.spec.node_name:
        return _NO_GPU_YET
    return end_effects.of_one(action(pod, terms), is_owned=is_owned(pod))


def over(booking: Booking) -> str:
    """Why a pod ends, for its owner; also what it reads on the pod that came back."""
    return f"The booking {booking.name} that covered this pod was over at {instant(booking.spec.end)}."


def ended(pod: Pod, booking: Booking) -> str:
    """Why a pod ends, and what comes of it where that is not plain to see."""
    if is_owned(pod):
        return f"{over(booking)} Its controller may make another pod, which then waits for a free GPU."
    return (
        over(booking) if decided_back(booking) == WITHOUT_GPU else f"{over(booking)} It does not come back."
    )


def demoted(pod: Pod, booking: Booking) -> str:
    """What the owner of a pod is told that stays, but is not booked any more."""
    if not pod.spec.node_name:
        return f"{over(booking)} It goes on waiting, without a booking."
    return f"{over(booking)} It stays, but must leave when a booked pod needs its GPUs."
