"""What happens to a pod when the booking that covers it ends, and the messages about it. Pure.

Used by the warnings before the end, by the end itself, and by the planner, which spares other pods for it.
"""

from typing import Final

from booking.controller.reclaimer.evictions.comeback import is_owned
from booking.controller.reclaimer.evictor import Back
from booking.eviction import end_effects
from booking.eviction.settings import EndAction, EvictionSettings
from booking.wording import instant
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

NEVER: Final[Back] = "never"
WITHOUT_GPU: Final[Back] = "without-gpu"

_NO_GPU_YET: Final = "This pod has no GPU yet, and then goes on waiting without a booking."


def action(pod: Pod, terms: EvictionSettings) -> EndAction:
    """The configured action for this pod."""
    return terms.end_action_with_controller if is_owned(pod) else terms.end_action_without_controller


def goes(pod: Pod, terms: EvictionSettings) -> bool:
    """Whether the pod ends with its booking; a pod that only loses its booking stays until it is evicted."""
    return action(pod, terms) != "demote"


def back(terms: EvictionSettings) -> Back:
    """Whether bare pods that end with a booking come back: recorded when it is decided which pods end."""
    return NEVER if terms.end_action_without_controller == "delete" else WITHOUT_GPU


def decided_back(booking: Booking) -> Back:
    """What was recorded; a booking without a record was decided when all bare pods came back."""
    return NEVER if booking.status.back == NEVER else WITHOUT_GPU


def expected(pod: Pod, terms: EvictionSettings) -> str:
    """For the owner, before the end: what will happen to this pod, and what to do."""
    if not pod.spec.node_name:
        return _NO_GPU_YET
    return end_effects.of_one(action(pod, terms), is_owned=is_owned(pod))


def over(booking: Booking) -> str:
    """Why a pod ends, for its owner; written on the pod that comes back, too."""
    return f"The booking {booking.name} that covered this pod was over at {instant(booking.spec.end)}."


def ended(pod: Pod, booking: Booking) -> str:
    """Why a pod ends, and what happens next where that is not obvious."""
    if is_owned(pod):
        return f"{over(booking)} Its controller may make another pod, which then waits for a free GPU."
    return (
        over(booking) if decided_back(booking) == WITHOUT_GPU else f"{over(booking)} It does not come back."
    )


def demoted(pod: Pod, booking: Booking) -> str:
    """For the owner of a pod that stays but is not booked any more."""
    if not pod.spec.node_name:
        return f"{over(booking)} It goes on waiting, without a booking."
    return f"{over(booking)} It stays, but must leave when a booked pod needs its GPUs."
