"""Bookings as requested, evaluated and stored: the types shared by rules, store, service and REST.

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
    """A request as it was received; ``booking.server.evaluation.evaluate`` validates it."""

    model: str
    """Any spelling: ``NVIDIA A100-SXM4-80GB`` or ``NVIDIA-A100-SXM4-80GB``."""
    end: Instant
    count: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] = 1
    """GPUs. The bounds are those of JSON; whether so many exist is checked later."""
    memory: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None = None
    """MiB of each of them; None means whole GPUs."""
    start: Instant | None = None
    """None means now."""
    namespace: str | None = None
    """Cover pods of this namespace only; None means all."""
    topology: Topology | None = None
    """None means ``single-node`` for more than one GPU, else ``any``."""


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node, and how many of its devices a booking has there."""

    node: str
    """Empty for devices of a booking of shares that have no node at present."""
    count: int
    lanes: tuple[int, ...] = ()
    """Of a booking of shares, the number of each of these devices: shares of one number are on one device."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A stored booking: ``count`` devices of ``model``, or shares, for ``user`` in ``[start, end)``."""

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
    """The actual end: that of an early release is the instant of the release."""
    created: datetime
    released: datetime | None = None
    """When its owner released it before its end."""
    cancelled: datetime | None = None
    """When it was cancelled before its start."""
    change: int = 0
    """Number of the change that wrote it last; grows across the whole store."""
    plan: tuple[Place, ...] = ()
    """Its place in the booking plan, until a better one is found: a guarantee needs a place that works."""
    created_by: str = ""
    """User id of the administrator who booked on behalf of ``user``; empty if the owner did."""
    policy: str = ""
    """Version of the policy under which it was last accepted."""
    ended_by: str | None = None
    """User id of the administrator who released or cancelled it."""
    reason: str | None = None
    """The administrator's reason for that."""
    waived: bool = False
    """Whether an administrator ended it, so that it does not count for the cooldown."""
    memory: int | None = None
    """MiB of each of its devices; None if they are its own as a whole."""

    @property
    def places(self) -> tuple[Place, ...]:
        """Its plan without the devices that have no node at present."""
        return tuple(place for place in self.plan if place.node)

    @property
    def version(self) -> str:
        """A short digest of everything that people decide about it; a change names the version that it saw.

        Its place in the booking plan is not included: the plan changes by itself.
        """
        made = msgspec.structs.replace(self, plan=(), change=0)
        return sha256(msgspec.json.encode(made)).hexdigest()[:_VERSION_LETTERS]

    def state(self, now: datetime) -> State:
        """Its state at this instant. Computed, never stored, so no timer can be late."""
        if self.cancelled is not None:
            return "cancelled"
        if now < self.start:
            return "planned"
        # A released booking has ended, though the second of its release still counts as booked.
        is_over = now >= self.end or (self.released is not None and now >= self.released)
        return "ended" if is_over else "active"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a request: a broken rule, or an impossible value."""

    rule: str
    """Stable and kebab-case: ``cooldown``, ``unknown-model``."""
    message: str
    """One sentence for people."""
    limit: str | int | None = None
    """The allowed value. Durations are ISO 8601, instants RFC 3339."""
    actual: str | int | None = None
    """The requested value, in the same form."""
    earliest_start: datetime | None = None
    """From when on this violation alone would not matter; None if waiting does not help."""


class BookingChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a booking; fields that are not set stay as they are."""

    start: Instant | UnsetType = UNSET
    end: Instant | UnsetType = UNSET
    count: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | UnsetType = UNSET
    memory: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | UnsetType = UNSET
    """MiB of each device: of a booking of shares alone."""
    namespace: str | UnsetType | None = UNSET
    """None: it covers pods of every namespace."""


class SlotRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question when ``count`` GPUs of a model are available for so long."""

    model: str
    duration: Duration
    count: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] = 1
    memory: Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None = None
    not_before: Instant | None = None
    """None means now."""
    deadline: Instant | None = None
    """When the booking must have ended at the latest; None: at any time."""
    topology: Topology | None = None
    namespace: str | None = None


class Slot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer to that: as a booking it would be accepted now."""

    model: str
    count: int
    memory: int | None = None
    topology: Topology
    namespace: str | None
    start: datetime
    end: datetime
