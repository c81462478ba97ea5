"""What happens to pods when their booking is over, by the settings, as messages for people. Pure.

The controller reports it to the owner of each pod before the end, the booking server to the user who ends a
booking.
"""

from collections.abc import Mapping
from typing import Final

from booking.eviction.settings import EndAction, EvictionSettings

_OF_ONE: Final[Mapping[tuple[bool, EndAction], str]] = {
    (False, "recreate-without-gpu"): "This pod is then ended and comes back without a GPU under its own name:"
    " save your work before.",
    (False, "delete"): "This pod is then ended and does not come back: save your work before.",
    (True, "recreate-without-gpu"): "This pod is then ended, and its controller makes another, which waits"
    " for a free GPU: save your work before.",
    (True, "delete"): "This pod is then ended, and its controller makes another, which waits for a free GPU:"
    " save your work before.",
}
_ONE_STAYS: Final = (
    "This pod then stays, but must leave whenever a booked pod needs its GPUs: save your work often."
)

_BARE: Final = "Its bare pods"
_OWNED: Final = "Its pods of controllers, such as Jobs,"
_ALL: Final = "Its pods"
_STAY: Final = "stay, but must leave whenever a booked pod needs their GPUs."
_MADE_AGAIN: Final = ", and their controllers make others, which wait for free GPUs"
_AND_THEN: Final[Mapping[tuple[bool, EndAction], str]] = {
    (False, "recreate-without-gpu"): " and come back without a GPU",
    (False, "delete"): " and do not come back",
    (True, "recreate-without-gpu"): _MADE_AGAIN,
    (True, "delete"): _MADE_AGAIN,
}
"""(Whether controllers own the pods, the configured action) -> what happens to the pods that end."""


def of_one(action: EndAction, *, is_owned: bool) -> str:
    """The message to a pod's owner before the end of its booking: what will happen, and what to do.

    Args:
        action: the configured action for this pod.
        is_owned: whether a controller owns it.
    """
    return _ONE_STAYS if action == "demote" else _OF_ONE[is_owned, action]


def before(terms: EvictionSettings) -> str:
    """What will happen to a booking's pods if it ends now, shown before it does: sentences."""
    return _of_all(terms, "end with it", ": save your work first.")


def after(terms: EvictionSettings) -> str:
    """What happens to a booking's pods, shown when it has ended: sentences."""
    return _of_all(terms, "end now", ".")


def _of_all(terms: EvictionSettings, end: str, stop: str) -> str:
    actions = (terms.end_action_without_controller, terms.end_action_with_controller)
    if set(actions) == {"demote"}:
        return f"{_ALL} {_STAY}"
    return " ".join(
        f"{who} {_STAY}" if action == "demote" else f"{who} {end}{_AND_THEN[is_owned, action]}{stop}"
        for who, is_owned, action in zip((_BARE, _OWNED), (False, True), actions, strict=True)
    )
