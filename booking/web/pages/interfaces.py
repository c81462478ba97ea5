"""The dependencies of the pages: interfaces, so that tests can pass fakes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Protocol

from booking.evaluation.alternatives import Alternative
from booking.evaluation.evaluate import Decision
from booking.eviction_settings import EvictionSettings
from booking.policy.policy import Policy
from booking.principals import Principal
from booking.records import BookingRequest, Change, Record, Slot, SlotRequest
from booking.service.idempotency import Key
from booking.service.known_names import KnownNames
from booking.service.overview import Overview
from booking.service.pagination import Page
from booking.store_records import Block, Filters
from booking.web.interfaces import Bookings as Administration
from booking.web.interfaces import Live
from booking.web.mirror_barrier import MirrorBarrier
from booking.web.pages.csrf import CsrfProtection
from booking.web.pages.kept_form import KeptForms
from booking.web.request_guard import RequestGuard
from cluster.process.clock import Clock
from cluster.process.probes import Check

PodsOf = Callable[[], Mapping[str, tuple[str, ...]] | None]
"""Booking id -> ``namespace/name`` of the pods that it covers now; None while pods are not known."""


class Bookings(Protocol):
    """What pages use of ``booking.service.BookingService``, which documents the errors."""

    def overview(self, who: Principal, start: datetime, end: datetime) -> Overview:
        """Capacity, bookings and maintenance in a span."""
        ...

    def create(
        self, who: Principal, request: BookingRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Book; the same key with the same request books once."""
        ...

    def replayed(self, who: Principal, key: Key | None) -> Record | None:
        """The booking from an earlier submission of the form with this key; None if there was none."""
        ...

    def dry_run(self, who: Principal, request: BookingRequest, *, user: str | None = None) -> Decision:
        """The answer that ``create`` would give."""
        ...

    def earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None
    ) -> Sequence[Slot]:
        """The first slots that could be booked now."""
        ...

    def list(
        self, who: Principal, filters: Filters | None = None, *, after: str | None = None, limit: int = 100
    ) -> Page[Record]:
        """A page of the caller's bookings; for an administrator, of any user's."""
        ...

    def at_risk(self, records: Iterable[Record]) -> frozenset[str]:
        """Ids of the bookings that cannot be kept at present."""
        ...

    def alternatives(self, who: Principal, booking_id: str) -> Sequence[Alternative]:
        """The alternatives to a booking that cannot be kept."""
        ...

    def limits(self, who: Principal, *, model: str | None = None) -> Mapping[str, Any]:
        """The caller's limits; lengths are ISO 8601."""
        ...

    def known_names(self, who: Principal) -> KnownNames:
        """The names by which the caller is known."""
        ...

    def blocks(self, who: Principal) -> Sequence[Block]:
        """Maintenance blocks that are not over."""
        ...

    def show(self, who: Principal, booking_id: str) -> Record:
        """One of the caller's bookings; administrators see all users'."""
        ...

    def change(
        self, who: Principal, booking_id: str, change: Change, *, expected: str | None = None
    ) -> Record:
        """Change a booking: its times, the number of GPUs, its namespace."""
        ...

    def dry_run_change(self, who: Principal, booking_id: str, change: Change) -> Decision:
        """The answer that ``change`` would give."""
        ...

    def release(self, who: Principal, booking_id: str, *, expected: str | None = None) -> Record:
        """End a running booking now."""
        ...

    def cancel(self, who: Principal, booking_id: str, *, expected: str | None = None) -> Record:
        """Cancel a planned booking."""
        ...


@dataclass(frozen=True, kw_only=True)
class PageParts:
    """All dependencies of the pages."""

    bookings: Bookings
    administration: Administration
    """The same service, with the administrators' methods."""
    live: Live
    policy: Callable[[], Policy]
    """The policy in force."""
    policy_trouble: Check
    """Why the present policy file is not in force."""
    guard: RequestGuard
    csrf: CsrfProtection
    kept: KeptForms | None = None
    """Keeps forms across signing in; None: nobody signs in here."""
    guarantee: MirrorBarrier
    unknown_capacity: Check
    """Why the number of GPUs is not known now."""
    zone: Callable[[], tzinfo]
    """The site's zone, in which days are counted and times are shown."""
    pods_of: PodsOf
    terms: EvictionSettings
    """What happens to pods whose booking is over."""
    resources: Callable[[], Mapping[str, str]] = dict
    """Model -> the resource under which pods request it."""
    clock: Clock
