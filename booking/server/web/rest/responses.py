"""Answers of the REST API: instants in RFC 3339 UTC, lengths in ISO 8601."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from booking.server.calendar import Step
from booking.server.records import Place, Record, Slot, State
from booking.server.service import ModelAvailability
from booking.server.store_records import AuditEntry, Block, Denied, Exemption
from booking.server.web.problems import Offer
from cluster.decide.known_names import KnownAs
from cluster.objects.bookings import Topology
from cluster.objects.meta import Instant


class BookingAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A booking as it is answered; times are UTC."""

    id: str
    user: str
    state: State
    model: str
    count: int
    topology: Topology
    namespace: str | None
    start: Instant
    end: Instant
    created: Instant
    version: str
    """The ETag, without its quotes: it changes with every change that a user makes. The place in the plan
    does not count."""
    released: Instant | None = None
    cancelled: Instant | None = None
    created_by: str | None = None
    """The administrator who booked on behalf of the user."""
    ended_by: str | None = None
    """User id of the administrator who ended the booking."""
    reason: str | None = None
    """The administrator's reason for that."""
    policy: str | None = None
    """Version of the policy under which it was accepted."""
    nodes: tuple[Place, ...] = ()
    """Its place in the plan, until pods use it."""
    memory: int | None = None
    """MiB of each of its GPUs; left out where they are whole."""
    at_risk: bool = False
    """Whether it cannot be kept at present: devices have disappeared. It is not cancelled automatically."""
    alternatives: tuple[Offer, ...] = ()
    """Alternatives then: by a change; for another model or topology, by cancelling it and booking again. Only
    if a single booking is shown."""
    mirrored: bool | None = None
    """Only after a change: whether it is already written in the cluster."""
    note: str | None = None
    """What that means, if it is not."""
    pods: str | None = None
    """Only if the request ends it, or would: what happens to its pods."""
    warnings: tuple[str, ...] = ()
    """Only after booking or changing it: what may keep its pods from being created, such as a quota."""
    dry_run: bool = False
    """Whether this is the would-be result, and nothing was changed."""


class BookingPage(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"following": "continue"}
):
    """Bookings by start; with ``continue`` there are more."""

    bookings: tuple[BookingAnswer, ...]
    following: str | None = None


class WouldBe(msgspec.Struct, frozen=True, kw_only=True):
    """What would be stored; nothing was."""

    dry_run: bool
    user: str
    model: str
    count: int
    topology: Topology
    namespace: str | None
    start: Instant
    end: Instant
    nodes: tuple[Place, ...]
    """Where the plan would have it."""
    memory: int | UnsetType = UNSET
    """MiB of each of its GPUs; left out where they are whole."""
    warnings: tuple[str, ...] = ()
    """What may keep its pods from being created, such as a quota of the namespace."""


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """Spans in which the request could be booked now, first ones first."""

    slots: tuple[Slot, ...]
    warnings: tuple[str, ...] = ()
    """Why none of them can be booked before a planned booking has begun or is cancelled."""


class Maintenance(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs of a node that cannot be booked for a while."""

    node: str
    model: str | None
    """None: all models."""
    count: int | None
    """None: all GPUs of the node."""
    start: Instant
    end: Instant
    reason: str


class BookedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A booking of which it may be known whose it is."""

    user: str
    count: int
    memory: int | None = None
    """MiB of each of its GPUs; left out where they are whole."""
    start: Instant
    end: Instant


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The free devices of a model over time."""

    model: str
    capacity: int
    """Whole healthy GPUs at present."""
    steps: tuple[Step, ...]
    """Without gaps, from the span's start to its end; the capacity excludes devices in maintenance at the
    time."""
    nodes: Mapping[str, int]
    """Node -> whole healthy GPUs of the model at present."""
    memory: int | None
    """MiB of each GPU that can be booked in shares; null where GPUs of this model are booked whole only."""
    blocks: tuple[Maintenance, ...]
    """Maintenance in the span."""
    bookings: tuple[BookedAnswer, ...]
    """The caller's in the span; all for an administrator, or if the policy shows names."""


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """The free devices over time, by model."""

    start: Instant
    end: Instant
    models: tuple[ModelAnswer, ...]


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, and what holds for them now."""

    user: str
    name: str
    """The raw name from the cluster or the identity provider."""
    groups: tuple[str, ...]
    is_administrator: bool
    limits: Mapping[str, Any]
    known_as: tuple[KnownAs, ...] = ()
    """The names of each source that are this user."""
    notes: tuple[str, ...] = ()
    """Messages about sources that do not know this user."""


class BlockPage(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"following": "continue"}
):
    """Maintenance that is not over; with ``continue`` there is more."""

    blocks: tuple[Block, ...]
    following: str | None = None


class AtRisk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A booking that cannot be kept as things are."""

    id: str
    user: str
    model: str
    count: int
    memory: int | None = None
    """MiB of each of its GPUs; left out where they are whole."""
    start: Instant
    end: Instant


class AddedBlock(Block, frozen=True, kw_only=True):
    """Maintenance that was added."""

    at_risk: tuple[AtRisk, ...] = ()
    """Bookings during it that cannot be kept at present, by start. None is cancelled automatically."""


class WouldBlock(Maintenance, frozen=True, kw_only=True):
    """Maintenance that would be added; it was not."""

    dry_run: bool
    at_risk: tuple[AtRisk, ...] = ()
    """Bookings during it that could not be kept then, by start."""


class WouldUnblock(Block, frozen=True, kw_only=True):
    """Maintenance that would be removed; it was not."""

    dry_run: bool


class WouldExempt(msgspec.Struct, frozen=True, kw_only=True):
    """An exemption that would be added; it was not."""

    dry_run: bool
    user: str
    limits: Mapping[str, Any]
    model: str | None
    """None: all models."""
    start: Instant
    end: Instant
    reason: str


class WouldRevoke(Exemption, frozen=True, kw_only=True):
    """An exemption that would be removed; it was not."""

    dry_run: bool


class ExemptionPage(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"following": "continue"}
):
    """Exemptions that are not over; with ``continue`` there are more."""

    exemptions: tuple[Exemption, ...]
    following: str | None = None


class AuditPage(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"following": "continue"}
):
    """Entries of the audit log, newest first; with ``continue`` there is more."""

    audit: tuple[AuditEntry, ...]
    following: str | None = None


class DeniedPage(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"following": "continue"}
):
    """Requests that were not granted, newest first; with ``continue`` there are more."""

    denied: tuple[Denied, ...]
    following: str | None = None


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was ordered to go."""

    namespace: str
    pod: str
    reason: str


class WouldEvict(Eviction, frozen=True, kw_only=True):
    """A pod that would be ordered to go; it was not. The API server would take the order."""

    dry_run: bool
    user: str | None
    """Its owner; None if it has none."""
    booking: str | None
    """The booking that covers it, which does not protect it."""
    node: str
    gpus: int
    """The most GPUs that it holds at one time."""
    controller: str | None
    """The controller that replaces it (``Job/train``); None without one."""
    not_replaced: str | None = None
    """Why the controller does not, as far as is known: a clause; null where it does."""


class GpuOrdered(msgspec.Struct, frozen=True, kw_only=True):
    """An order about a GPU that its node's agent obeys."""

    node: str
    gpu: str
    """UUID of the GPU."""
    order: str
    reason: str


class WouldOrderGpu(GpuOrdered, frozen=True, kw_only=True):
    """An order about a GPU that would be written; it was not. The API server would take it."""

    dry_run: bool


class Index(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of the API."""

    name: str
    token: str
    """How to get a token."""
    header: str
    """How to present a token."""
    addresses: Mapping[str, str]
    example: Mapping[str, Any]
    openapi: str
    """Address of the OpenAPI document."""


def would_block(block: Block, at_risk: tuple[AtRisk, ...]) -> WouldBlock:
    """Maintenance from a dry run: it has no id, and no one who ordered it."""
    return WouldBlock(
        dry_run=True,
        node=block.node,
        model=block.model,
        count=block.count,
        start=block.start,
        end=block.end,
        reason=block.reason,
        at_risk=at_risk,
    )


def would_exempt(exemption: Exemption) -> WouldExempt:
    """An exemption from a dry run."""
    return WouldExempt(
        dry_run=True,
        user=exemption.user,
        limits=exemption.limits,
        model=exemption.model,
        start=exemption.start,
        end=exemption.end,
        reason=exemption.reason,
    )


def booking_answer(
    record: Record,
    now: datetime,
    *,
    mirrored: bool | None = None,
    note: str | None = None,
    pods: str | None = None,
    at_risk: bool = False,
    alternatives: tuple[Offer, ...] = (),
    warnings: tuple[str, ...] = (),
    dry_run: bool = False,
) -> BookingAnswer:
    """A record as it is answered at this instant."""
    return BookingAnswer(
        id=record.id,
        user=record.user,
        state=record.state(now),
        model=record.model,
        count=record.count,
        topology=record.topology,
        namespace=record.namespace,
        start=record.start,
        end=record.end,
        created=record.created,
        version=record.version,
        released=record.released,
        cancelled=record.cancelled,
        created_by=record.created_by or None,
        ended_by=record.ended_by,
        reason=record.reason,
        policy=record.policy or None,
        nodes=record.places,
        memory=record.memory,
        at_risk=at_risk,
        alternatives=alternatives,
        mirrored=mirrored,
        note=note,
        pods=pods,
        warnings=warnings,
        dry_run=dry_run,
    )


def model_answer(found: ModelAvailability) -> ModelAnswer:
    """The availability of a model, with its maintenance, but without who ordered that."""
    return ModelAnswer(
        model=found.model,
        capacity=found.capacity,
        steps=found.steps,
        nodes=found.nodes,
        memory=found.memory,
        blocks=tuple(
            Maintenance(
                node=block.node,
                model=block.model,
                count=block.count,
                start=block.start,
                end=block.end,
                reason=block.reason,
            )
            for block in found.blocks
        ),
        bookings=tuple(
            BookedAnswer(user=each.user, count=each.count, memory=each.memory, start=each.start, end=each.end)
            for each in found.bookings
            if each.user is not None
        ),
    )
