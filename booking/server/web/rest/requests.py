"""Bodies and queries of the REST API. Their types parse them and describe them in OpenAPI."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from booking.server.records import State
from booking.server.web.fields import (
    MOST_NAMES,
    READ,
    Boolean,
    Count,
    Instant,
    Length,
    Memory,
    Model,
    Ordered,
    PageLength,
    Reason,
    Shape,
    Text,
    object_of,
)

_Struct = msgspec.Struct


class BookingBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A booking that somebody wants: ``end`` or ``duration``, and without ``start`` from now on."""

    model: Model
    count: Count | None = None
    memory: Memory | None = None
    start: Instant | None = None
    end: Instant | None = None
    duration: Length | None = None
    namespace: Text | None = None
    topology: Shape | None = None
    user: Text | None = None


class ChangeBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a booking: absent fields stay as they are; a namespace of null means all of them."""

    start: Instant | UnsetType = UNSET
    end: Instant | UnsetType = UNSET
    count: Count | UnsetType = UNSET
    memory: Memory | UnsetType = UNSET
    namespace: Text | UnsetType | None = UNSET
    reason: Reason | None = None


class EndBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why an administrator ends somebody else's booking."""

    reason: Reason | None = None


class SlotBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The question when GPUs could be had for so long."""

    model: Model
    duration: Length
    count: Count | None = None
    memory: Memory | None = None
    not_before: Instant | None = None
    deadline: Instant | None = None
    topology: Shape | None = None
    namespace: Text | None = None
    user: Text | None = None


class BlockBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GPUs of a node that cannot be booked for a while: all of them, or some."""

    node: Text
    start: Instant
    end: Instant
    reason: Reason
    model: Model | None = None
    count: Count | None = None


class ExemptionBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other limits for a user for a while, named and written as in the policy file."""

    user: Text
    start: Instant
    end: Instant
    limits: Annotated[Mapping[str, Any], msgspec.Meta(max_length=MOST_NAMES, extra={READ: object_of})]
    reason: Reason
    model: Model | None = None


class EvictionBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod that has to go, booked or not."""

    namespace: Text
    pod: Text
    reason: Reason


class GpuOrderBody(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU that shall get no new pods, or get them again."""

    node: Text
    gpu: Text
    order: Ordered
    reason: Reason


class DryRun(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether only to say what would come of it."""

    dry_run: Boolean = False


class WhichSlots(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether free times are shown that a planned booking of the user's keeps from being booked now."""

    despite_planned: Boolean = False


class WhichBookings(
    _Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"after": "continue"}
):
    """Which bookings: without ``past``, ``state``, ``start`` and ``end`` those that run and are planned."""

    user: Text | None = None
    model: Model | None = None
    state: State | None = None
    start: Instant | None = None
    end: Instant | None = None
    past: Boolean | None = None
    limit: PageLength = 100
    after: Text | None = None


class WhichPage(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"after": "continue"}):
    """Which page of a long list."""

    limit: PageLength = 100
    after: Text | None = None


class WhichAudit(
    _Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"after": "continue"}
):
    """Which changes: of one thing, by one user, or all."""

    subject: Text | None = None
    """Id of a booking, block or exemption, or the name of another changed object."""
    actor: Text | None = None
    """User id of the actor."""
    limit: PageLength = 100
    after: Text | None = None


class WhichSpan(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which model, and when: from now on for 28 days."""

    model: Model | None = None
    start: Instant | None = None
    end: Instant | None = None


class WhichExemptions(
    _Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"after": "continue"}
):
    """Exemptions of one user, or of everybody."""

    user: Text | None = None
    limit: PageLength = 100
    after: Text | None = None


class WhichModel(_Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one model, or of all."""

    model: Model | None = None
