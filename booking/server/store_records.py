"""What the booking database stores besides bookings, and filters for bookings: types of store and service.

Instants are aware UTC in whole seconds.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from booking.server.records import State


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """The basis of a booking's evaluation, which the database itself checks, too, at the write.

    It must allow whatever ``evaluate`` allows, so it holds upper bounds.
    """

    since: datetime
    """The transaction's now: time before it was not evaluated, and bookings over by then are settled."""
    devices: int | None = None
    """Existing devices of the model, maintenance included; None: the database does not check."""
    live: int | None = None
    """The most planned and active bookings of all models that the user may have; None: unlimited."""


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Which bookings to list; None does not restrict."""

    user: str | None = None
    model: str | None = None
    """Model in label form."""
    state: State | None = None
    start: datetime | None = None
    """Only bookings that end after this."""
    end: datetime | None = None
    """Only bookings that start before this."""
    past: bool = True
    """Whether ended and cancelled ones are included."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of a node that cannot be booked in ``[start, end)``: maintenance."""

    id: str
    node: str
    model: str | None = None
    """In label form; None means all."""
    count: int | None = None
    """Devices; None means all of the node."""
    start: datetime
    end: datetime
    reason: str
    created_by: str
    created: datetime


class Exemption(msgspec.Struct, frozen=True, kw_only=True):
    """Other limits for one user until an instant."""

    id: str
    user: str
    limits: Mapping[str, Any]
    """The limits that differ, as in the policy file; ``booking.policy`` defines which are allowed."""
    model: str | None = None
    """For this model alone, in label form; None means all."""
    start: datetime
    end: datetime
    reason: str
    created_by: str
    created: datetime


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody changed something. Never changed and never removed."""

    at: datetime
    actor: str
    """User id of the actor."""
    action: str
    """``booking.create``, ``block.remove``: subject's kind, dot, verb."""
    subject: str
    """Id of the changed object."""
    reason: str | None = None
    before: Mapping[str, Any] | None = None
    """As JSON; None for a creation."""
    after: Mapping[str, Any] | None = None
    """As JSON; None for a removal."""
    number: int = 0
    """Assigned by the database; later entries have higher numbers."""


class Denied(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was refused."""

    at: datetime
    user: str
    model: str
    count: int
    start: datetime | None
    end: datetime | None
    rules: tuple[str, ...]
    """Names of the rules that it broke."""
    earliest_start: datetime | None = None
    number: int = 0
    """Assigned by the database; later entries have higher numbers."""


ANSWERED: Final = 200
NOT_GRANTED: Final = 422


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that carried an idempotency key."""

    digest: str
    """SHA-256 of the answered request: another request with the same key is refused."""
    status: int
    """``ANSWERED``; or ``NOT_GRANTED``: it was refused, and is evaluated again when it is repeated."""
    body: bytes
    """The answer; empty where there is none."""
    headers: Mapping[str, str]
    at: datetime

    @property
    def is_answer(self) -> bool:
        """Whether a repeated request gets the same answer."""
        return self.status == ANSWERED


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A user's session on the page."""

    id: str
    """Digest of the cookie's value, never the value itself."""
    user: str
    name: str
    """The user's raw name."""
    groups: tuple[str, ...] = ()
    csrf: str = ""
    """The token that this session's forms must carry, against cross-site requests."""
    created: datetime
    expires: datetime
    data: Mapping[str, Any] = {}
    """Other data that the login stores with it; JSON."""
