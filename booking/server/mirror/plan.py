"""What the mirror must write: the difference between the stored bookings and the Booking objects. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from booking.server.records import Record
from cluster import names
from cluster.objects.bookings import Booking, BookingSpec, Place

KEPT: Final = timedelta(days=7)
"""How long an ended booking stays as an object: a late reclaimer can still end its pods."""

Verb = Literal["create", "change", "delete"]


@dataclass(frozen=True)
class Write:
    """One write to one Booking object."""

    verb: Verb
    name: str
    spec: dict[str, Any] = field(default_factory=dict)
    """All fields for a creation, the changed ones for a change, where None removes a field."""
    uid: str = ""
    """Uid of the existing object; like ``version``, its resourceVersion, empty for a creation."""
    version: str = ""


def plan(
    wanted: Iterable[Record],
    there: Iterable[Booking],
    *,
    store_id: str,
    resources: Mapping[str, str] | None = None,
) -> tuple[Write, ...]:
    """The writes that make the objects equal to the records: deletions, then changes, then creations.

    Args:
        wanted: the records that must have an object.
        there: the existing objects; those that are being deleted count as gone.
        store_id: of the database, written on every object.
        resources: model -> resource under which the nodes offer it now. A booking of a model that none of
            them has now keeps the resource that it had.
    """
    present = {booking.name: booking for booking in there if not booking.metadata.deletion_timestamp}
    specs = {
        record.id: spec_of(record, store_id=store_id, resource=_resource(record, present, resources or {}))
        for record in wanted
    }
    deletions = (_delete(present[name]) for name in sorted(present.keys() - specs.keys()))
    changes = (_change(present[name], specs[name]) for name in sorted(present.keys() & specs.keys()))
    creations = (
        Write("create", name, spec={k: v for k, v in fields_of(spec).items() if v is not None and v != ()})
        for name, spec in specs.items()
        if name not in present
    )
    return (*deletions, *(change for change in changes if change.spec), *creations)


def _resource(record: Record, present: Mapping[str, Booking], resources: Mapping[str, str]) -> str:
    before = present[record.id].spec.resource if record.id in present else names.GPU_RESOURCE
    return resources.get(record.model, before)


def spec_of(record: Record, *, store_id: str, resource: str = names.GPU_RESOURCE) -> BookingSpec:
    """The ``spec`` of a record's object."""
    return BookingSpec(
        user=record.user,
        model=record.model,
        count=record.count,
        start=record.start,
        end=record.end,
        namespace=record.namespace,
        topology=record.topology,
        node=record.places[0].node if len(record.places) == 1 else None,
        places=tuple(Place(node=one.node, count=one.count, lanes=one.lanes) for one in record.places),
        resource=resource,
        memory=record.memory,
        store_id=store_id,
    )


def fields_of(spec: BookingSpec) -> dict[str, Any]:
    """A ``spec`` as it is written: every field by its JSON name, instants in RFC 3339 with whole seconds."""
    return {
        each.encode_name: _text(value) if isinstance(value, datetime) else msgspec.to_builtins(value)
        for each in msgspec.structs.fields(spec)
        for value in [getattr(spec, each.name)]
    }


def _delete(booking: Booking) -> Write:
    return Write("delete", booking.name, uid=booking.metadata.uid, version=booking.metadata.resource_version)


def _change(booking: Booking, wanted: BookingSpec) -> Write:
    is_there, shall_be = fields_of(booking.spec), fields_of(wanted)
    differing = {key: value for key, value in shall_be.items() if is_there[key] != value}
    meta = booking.metadata
    return Write("change", booking.name, spec=differing, uid=meta.uid, version=meta.resource_version)


def _text(instant: datetime) -> str:
    return instant.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"
