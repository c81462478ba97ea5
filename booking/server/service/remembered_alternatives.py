"""What could be had instead of bookings at risk: computed once, until the calendar changes. Thread-safe."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from booking.policy.policy import Policy
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.alternatives import Alternative

REMEMBERED: Final = 256
"""Bookings whose alternatives are remembered."""
_SOON: Final = timedelta(minutes=1)
"""How long an offer that begins now is good for."""


@dataclass(frozen=True, slots=True)
class Basis:
    """All that alternatives follow from, except the time."""

    change: int
    """Number of the newest change of the store."""
    capacity: Capacity
    policy: Policy


@dataclass(frozen=True, slots=True)
class _RememberedAnswer:
    basis: Basis
    alternatives: tuple[Alternative, ...]
    until: datetime
    """When the first of them cannot be had any more."""


class RememberedAlternatives:
    """(Who asks, booking) -> the last answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Principal, str], _RememberedAnswer] = OrderedDict()

    def get(
        self,
        who: Principal,
        booking_id: str,
        basis: Basis,
        *,
        now: datetime,
        compute: Callable[[], tuple[Alternative, ...]],
    ) -> tuple[Alternative, ...]:
        """The remembered answer if it is still right, or a new one."""
        key = who, booking_id
        with self._lock:
            known = self._known.get(key)
        if known is not None and now < known.until and known.basis == basis:
            return known.alternatives
        found = compute()
        until = min((_good_until(each, now) for each in found), default=now + _SOON)
        with self._lock:
            self._known[key] = _RememberedAnswer(basis, found, until)
            self._known.move_to_end(key)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return found


def _good_until(offer: Alternative, now: datetime) -> datetime:
    return offer.start if offer.start > now else now + _SOON
