"""Bookings as they are asked for, judged and stored: the words of rules, store, service and REST.

Instants are aware UTC in whole seconds; intervals are half-open, ``[start, end)``.
"""

from datetime import datetime
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from booking.durations import Duration
from cluster.objects.bookings import Topology
from cluster.objects.meta import Instant

State = Literal["planned", "active", "ended", "cancelled"]

_VERSION_LETTERS: Final = 16


class BookingRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request as it came in; ``booking.evaluation.evaluate`` validates it."""

    model: str
    """Any spelling: ``NVIDIA A100-SXM4-80GB`` or ``NVIDIA-A100-SXM4-80GB``."""
    end: Instant
    count: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] = 1
    """Whole GPUs. The bounds are those of JSON; whether there are so many is judged later."""
    start: Instant | None = None
    """None means now."""
    namespace: str | None = None
    """Cover pods of this namespace only; None means all."""
    topology: Topology | None = None
    """None means ``single-node`` for more than one GPU, else ``any``."""


class Place(msgspec.Struct, frozen=True):
    """A node, and how many of its devices a booking has there."""

    node: str
    count: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A stored booking: ``count`` whole GPUs of ``model`` for ``user`` in ``[start, end)``."""

    id: str
    """Random; a valid Kubernetes name."""
    user: str
    model: str
    """Model in label form."""
    count: int
    topology: Topology
    namespace: str | None
    start: datetime
    end: datetime
    """When it really ends: released early, it is the moment of the release."""
    created: datetime
    released: datetime | None = None
    """When its owner gave it back before its time."""
    cancelled: datetime | None = None
    """When its owner took it back before it began."""
    change: int = 0
    """Number of the change that wrote it last; grows through the whole store."""
    plan: tuple[Place, ...] = ()
    """Where the plan has it, as long as nothing better is found: a guarantee needs one that works."""
    created_by: str = ""
    """User id of the administrator who booked on behalf of ``user``; empty: its owner did."""
    policy: str = ""
    """Version of the policy under which it was accepted last."""
    ended_by: str | None = None
    """User id of the administrator who ended or took it back."""
    reason: str | None = None
    """The administrator's reason for that."""
    waived: bool = False
    """Ended by an administrator: it does not count for the cooldown."""

    @property
    def version(self) -> str:
        """A short digest of all that people decide about it; a change names the version it is based on.

        Its place in the booking plan is not part of it: the plan moves by itself.
        """
        made = msgspec.structs.replace(self, plan=(), change=0)
        return sha256(msgspec.json.encode(made)).hexdigest()[:_VERSION_LETTERS]

    def state(self, now: datetime) -> State:
        """What it is at this instant. Computed, never stored: no timer could be late."""
        if self.cancelled is not None:
            return "cancelled"
        if now < self.start:
            return "planned"
        # Given back is given back, though the second in which it was still counts as booked.
        is_over = now >= self.end or (self.released is not None and now >= self.released)
        return "ended" if is_over else "active"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a request: a broken rule, or something that cannot be."""

    rule: str
    """Stable and kebab-case: ``cooldown``, ``unknown-model``."""
    message: str
    """One sentence for people."""
    limit: str | int | None = None
    """The allowed value. Durations are ISO 8601, instants RFC 3339."""
    actual: str | int | None = None
    """What was asked for, in the same form."""
    earliest_start: datetime | None = None
    """From when on this alone would not be in the way; None where waiting does not help."""


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a booking; fields that are not given stay as they are."""

    start: Instant | UnsetType = UNSET
    end: Instant | UnsetType = UNSET
    count: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | UnsetType = UNSET
    namespace: str | UnsetType | None = UNSET
    """None: it covers pods of every namespace."""


class SlotRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question when ``count`` GPUs of a model are to be had for so long."""

    model: str
    duration: Duration
    count: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] = 1
    not_before: Instant | None = None
    """None means now."""
    deadline: Instant | None = None
    """By when it must be over; None: whenever that is."""
    topology: Topology | None = None
    namespace: str | None = None


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to that: as a booking it would be accepted now."""

    model: str
    count: int
    topology: Topology
    namespace: str | None
    start: datetime
    end: datetime
