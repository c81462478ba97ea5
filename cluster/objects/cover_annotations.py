"""A pod's annotations about its cover, for people and MAIA's tools: written at creation, then kept current.

They are output only: our own decisions compute entitlement again. Admission writes them and the reclaimer
keeps them current; both take the texts from here, so that neither corrects the other's spelling.
``terminate-at`` is also MAIA's key, and only this module reads what MAIA's webhook has written there.
"""

from datetime import UTC, datetime

import msgspec

from cluster import names
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod


def cover_annotations_of(booking: Booking | None) -> dict[str, str]:
    """The annotations of a pod that this booking covers; empty if ``booking`` is None."""
    if booking is None:
        return {}
    return {names.BOOKING: booking.name, names.TERMINATE_AT: text_of(booking.spec.end)}


def terminate_at(pod: Pod) -> datetime | None:
    """The instant in a pod's ``terminate-at``; None if it is missing or cannot be read."""
    return instant_in(pod.metadata.annotation(names.TERMINATE_AT))


def instant_in(text: str | None) -> datetime | None:
    """The instant of a ``terminate-at``: RFC 3339 (UTC without a zone) or seconds since 1970; else None."""
    try:
        instant = msgspec.convert(text, datetime, strict=False)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        return None


def text_of(instant: datetime) -> str:
    """RFC 3339 in UTC, to the second: ``2026-11-27T16:00:00Z``."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
