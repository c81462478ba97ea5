"""The life cycle of a booking: the one table of states and verbs.

A state is computed from the record and the instant (``Record.state``): with its start a planned booking
becomes active, with its end an active one ends, without any action. Everything else that happens to a booking
is a verb and is listed here; a transition that is not listed does not happen. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec

from booking.server.records import Record, State, Violation

Verb = Literal["change", "release", "cancel"]

VERBS: Final[tuple[Verb, ...]] = ("change", "release", "cancel")
STATES: Final[tuple[State, ...]] = ("planned", "active", "ended", "cancelled")


class Next(msgspec.Struct, frozen=True):
    """The result of a verb on a booking."""

    states: tuple[State, ...]
    """Possible states, depending on the verb's request."""


class Why(msgspec.Struct, frozen=True):
    """Why a verb does not apply."""

    rule: str
    because: str
    """Continues "The booking b-one "; complete with its full stop."""


_OVER: Final = "is over (ended): nothing about it changes any more."
_TAKEN_BACK: Final = "is over (cancelled): nothing about it changes any more."

TABLE: Final[Mapping[State, Mapping[Verb, Next | Why]]] = {
    "planned": {
        "change": Next(("planned", "active")),
        "release": Why("not-begun", "has not begun: cancel it instead."),
        "cancel": Next(("cancelled",)),
    },
    "active": {
        "change": Next(("active", "ended")),
        "release": Next(("ended",)),
        "cancel": Why("begun", "is running: release it instead."),
    },
    "ended": {
        "change": Why("over", _OVER),
        "release": Why("over", "is over (ended): there is nothing to release."),
        "cancel": Why("over", "is over (ended): there is nothing to cancel."),
    },
    "cancelled": {
        "change": Why("over", _TAKEN_BACK),
        "release": Why("over", "is over (cancelled): there is nothing to release."),
        "cancel": Why("over", "is over (cancelled): there is nothing to cancel."),
    },
}
"""State -> verb -> the resulting states, or why the verb does not apply."""


def rejection(record: Record, verb: Verb, now: datetime) -> Violation | None:
    """Why a verb does not apply to a booking at this instant; None if it does."""
    found = TABLE[record.state(now)][verb]
    if isinstance(found, Next):
        return None
    return Violation(rule=found.rule, message=f"The booking {record.id} {found.because}")
