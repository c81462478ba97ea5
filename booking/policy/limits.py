"""The limits on one user, for one model, at one instant; their defaults are the manual's five rules."""

from datetime import tzinfo
from functools import lru_cache
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

import msgspec

from booking.durations import LONGEST, Duration, iso

Scope = Literal["user", "model"]
"""The bookings that count for the limits on a user: all of theirs, or only those of the requested model."""
_MOST: Final = 1_000_000
_DAY: Final = 86400


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits. The defaults are the manual's, which an installation without a policy file gets.

    Raises:
        ValueError: limits that nobody could keep; the message names them.
    """

    max_active: int = 1
    """A user with so many running bookings books no other, not even for later."""
    max_planned: int = 1
    """How many bookings of a user may be planned at a time."""
    scope: Scope = "user"
    """Which of a user's bookings count for max_active, max_planned and cooldown: all of theirs (user), or
    those of the same model (model)."""
    cooldown: Duration = Duration(days=14)
    """Between the end of somebody's last booking and the start of the next. The real end counts: who gives
    back early waits less. Cancelled bookings and those that an administrator pardoned do not count."""
    shortest: Duration = Duration(days=1)
    """The shortest booking; exactly that long is right."""
    longest: Duration = Duration(days=14)
    """The longest booking, extensions included; exactly that long is right."""
    tolerance: Duration = Duration(seconds=300)
    """A start so little in the past means now: clocks differ, and people think before they click."""
    farthest: Duration = Duration(days=3653)
    """A booking ends at most so far ahead: ten years are a slip of the pen."""
    horizon: Duration | None = None
    """A booking starts at most so far ahead; none: as long as it ends within farthest."""
    granularity: Duration | None = None
    """Starts that are not now are on multiples of it after midnight in the site's zone, and a booking lasts
    multiples of it or ends on one: a day, or a time that divides one. None: to the second."""
    max_gpus_per_booking: int | None = None
    """GPUs in one booking; 0: nobody books."""
    max_concurrent_gpus: int | None = None
    """GPUs of one user at any instant, all their bookings of all models together."""
    spontaneous: Duration | None = None
    """The two limits on GPUs are lifted for a booking that starts within this time: what is free today may
    be had."""
    may_extend: bool = True
    """Whether a running booking may get a later end or more GPUs, where there is room and it stays within
    longest."""
    buffer: int = 0
    """GPUs of a model that stay unbooked, for staff and for users without a booking."""
    zone: str = "UTC"
    """The site's zone, in which days are counted; it comes from the policy, not from a scope in it."""

    def __post_init__(self) -> None:
        """Refuse values and combinations that make no sense."""
        wrong = [*_wrong_amounts(self), *_wrong_spans(self)]
        if wrong:
            raise ValueError(" ".join(wrong))

    @property
    def tz(self) -> tzinfo:
        """The site's zone, for computing."""
        return zone_of(self.zone)

    @property
    def max_live(self) -> int | None:
        """The most bookings, active and planned together, that a user ever has; None: models count apart."""
        return self.max_active + self.max_planned - 1 if self.scope == "user" else None


@lru_cache(maxsize=8)
def zone_of(name: str) -> tzinfo:
    """A zone of the IANA database.

    Raises:
        ValueError: it has no zone of that name.
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"The zone {name[:80]!r} is not known: write one of the IANA database, e.g. Europe/Stockholm."
        ) from error


def limit_values(limits: Limits) -> dict[str, str | int | bool | None]:
    """The limits for programs: lengths in ISO 8601."""
    return {name: _plain(getattr(limits, name)) for name in limits.__struct_fields__}


def _plain(value: Any) -> Any:
    return iso(value) if isinstance(value, Duration) else value


def _wrong_amounts(limits: Limits) -> list[str]:
    least = {
        "max_active": 1,
        "max_planned": 1,
        "max_gpus_per_booking": 0,
        "max_concurrent_gpus": 0,
        "buffer": 0,
    }
    return [
        f"The policy's {name} is between {lowest} and {_MOST}, not {getattr(limits, name)}."
        for name, lowest in least.items()
        if getattr(limits, name) is not None and not lowest <= getattr(limits, name) <= _MOST
    ]


def _wrong_spans(limits: Limits) -> list[str]:
    found = {name: getattr(limits, name) for name in limits.__struct_fields__}
    wrong = [
        f"The policy's {name} is at most a hundred years."
        for name, value in found.items()
        if isinstance(value, Duration) and value.nominal > LONGEST.nominal
    ]
    if not Duration().nominal < limits.shortest.nominal <= limits.longest.nominal:
        wrong.append(
            f"The policy's shortest booking ({iso(limits.shortest)}) must be longer than zero and not over "
            f"its longest ({iso(limits.longest)})."
        )
    if limits.granularity is not None and not is_grid(limits.granularity):
        wrong.append(
            f"The policy's granularity ({iso(limits.granularity)}) is P1D, or a time that divides a day: "
            "PT1H, PT15M."
        )
    return wrong


def is_grid(span: Duration) -> bool:
    """Whether a day consists of whole steps of this length."""
    if span.days:
        return span == Duration(days=1)
    return 0 < span.seconds <= _DAY and _DAY % span.seconds == 0
