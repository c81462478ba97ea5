"""The dependencies of the REST API: interfaces, so that tests can pass fakes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Protocol

import msgspec

from booking.alternatives import Alternative
from booking.cluster_status import Now, Why
from booking.evaluate import Decision
from booking.eviction_settings import EvictionSettings
from booking.policy.policy import FILE_VERSION
from booking.principals import Principal
from booking.records import BookingRequest, Change, Record, Slot, SlotRequest
from booking.server_metrics import ServerMetrics
from booking.service import Key, ModelAvailability, Page
from booking.service.context import GpuOrder, PodToEvict
from booking.service.ending import Ending
from booking.store_records import AuditEntry, Block, Denied, Exemption, Filters
from cluster.process.clock import Clock
from cluster.process.probes import Check


class Bookings(Protocol):
    """``booking.service.BookingService``; it says what each of them raises."""

    def create(
        self, who: Principal, request: BookingRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Book."""
        ...

    def dry_run(self, who: Principal, request: BookingRequest, *, user: str | None = None) -> Decision:
        """What ``create`` would answer."""
        ...

    def earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None
    ) -> Sequence[Slot]:
        """The first slots."""
        ...

    def create_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """The first slot, booked."""
        ...

    def dry_run_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None
    ) -> Decision:
        """What ``create_earliest`` would answer."""
        ...

    def replayed(self, who: Principal, key: Key | None) -> Record | None:
        """What a request was answered before."""
        ...

    def spend(self, who: Principal, key: Key | None) -> None:
        """A request was refused before it came to the service."""
        ...

    def list(
        self, who: Principal, filters: Filters | None = None, *, after: str | None = None, limit: int = 100
    ) -> Page[Record]:
        """A page of bookings."""
        ...

    def show(self, who: Principal, booking_id: str) -> Record:
        """One of them."""
        ...

    def change(
        self,
        who: Principal,
        booking_id: str,
        change: Change,
        *,
        expected: str | frozenset[str] | None = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """Extend, shorten, move."""
        ...

    def dry_run_change(
        self,
        who: Principal,
        booking_id: str,
        change: Change,
        *,
        expected: str | frozenset[str] | None = None,
    ) -> Decision:
        """What ``change`` would answer."""
        ...

    def release(
        self,
        who: Principal,
        booking_id: str,
        *,
        expected: str | frozenset[str] | None = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """End a running one."""
        ...

    def cancel(
        self,
        who: Principal,
        booking_id: str,
        *,
        expected: str | frozenset[str] | None = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """Take a planned one back."""
        ...

    def dry_run_end(
        self,
        who: Principal,
        booking_id: str,
        verb: Ending,
        *,
        expected: str | frozenset[str] | None = None,
        reason: str | None = None,
    ) -> Record:
        """What ``release`` or ``cancel`` would answer."""
        ...

    def availability(
        self, who: Principal, model: str | None, start: datetime, end: datetime
    ) -> Sequence[ModelAvailability]:
        """The free devices, by model."""
        ...

    def at_risk(self, records: Iterable[Record]) -> frozenset[str]:
        """Ids of those that cannot be kept as things are."""
        ...

    def affected(self, block: Block) -> Sequence[Record]:
        """Bookings during a block that cannot be kept as things are."""
        ...

    def alternatives(self, who: Principal, booking_id: str) -> Sequence[Alternative]:
        """What could be had instead of one that is at risk."""
        ...

    def limits(self, who: Principal, *, model: str | None = None) -> Mapping[str, Any]:
        """What holds for somebody."""
        ...

    def blocks(self, who: Principal) -> Sequence[Block]:
        """Maintenance."""
        ...

    def block_page(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Block]:
        """Maintenance, a page at a time."""
        ...

    def add_block(
        self,
        who: Principal,
        *,
        node: str,
        start: datetime,
        end: datetime,
        reason: str,
        model: str | None = None,
        count: int | None = None,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> Block:
        """Take GPUs out."""
        ...

    def remove_block(
        self,
        who: Principal,
        block_id: str,
        *,
        reason: str | None = None,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> Block:
        """Give them back."""
        ...

    def exemptions(
        self, who: Principal, *, user: str | None = None, after: str | None = None, limit: int = 100
    ) -> Page[Exemption]:
        """Other limits of users, a page at a time."""
        ...

    def add_exemption(
        self,
        who: Principal,
        *,
        user: str,
        start: datetime,
        end: datetime,
        limits: Mapping[str, Any],
        reason: str,
        model: str | None = None,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> Exemption:
        """Let them hold."""
        ...

    def remove_exemption(
        self,
        who: Principal,
        exemption_id: str,
        *,
        reason: str | None = None,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> Exemption:
        """Let them end."""
        ...

    def audit(
        self,
        who: Principal,
        *,
        subject: str | None = None,
        actor: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[AuditEntry]:
        """Who changed what."""
        ...

    def denied(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Denied]:
        """What was not granted."""
        ...

    def evict(self, who: Principal, namespace: str, pod: str, reason: str, *, key: Key | None = None) -> None:
        """Order a pod to go."""
        ...

    def dry_run_evict(self, who: Principal, namespace: str, pod: str, reason: str) -> PodToEvict:
        """The pod that would go."""
        ...

    def order_gpu(
        self,
        who: Principal,
        node: str,
        gpu: str,
        *,
        order: GpuOrder,
        reason: str,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> str:
        """Order something of a GPU; its UUID."""
        ...


class Live(Protocol):
    """``booking.cluster_status.Live``; it says what each of them raises."""

    def now(self, who: Principal) -> Now:
        """Nodes, devices, holders, and who goes next."""
        ...

    def why(self, who: Principal, namespace: str, name: str) -> Why:
        """Why a pod is as it is."""
        ...

    def mine(self, who: Principal) -> Sequence[tuple[str, str]]:
        """Namespace and name of one's own pods."""
        ...


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for everybody who is not named in particular."""

    version: str
    """A name of what it means, another where that differs."""
    file_version: int = FILE_VERSION
    """Of the form in which policy files are written: their ``version``."""
    zone: str
    """In which days are counted."""
    limits: Mapping[str, Any]
    """By name of the knob; lengths are ISO 8601."""


class Mirrored(Protocol):
    """``booking.mirror.mirror.Mirror``."""

    def poke(self) -> None:
        """The database has changed."""
        ...

    def written(self, change: int, timeout: float) -> bool:
        """Wait for a change."""
        ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All dependencies of the API."""

    bookings: Bookings
    live: Live
    mirror: Mirrored
    no_promises: Check
    """Why nothing can be changed now: a promise could not be kept."""
    unknown_capacity: Check
    """Why it is not known now how many GPUs there are."""
    zone: Callable[[], tzinfo]
    """The site's zone, in which days are counted."""
    policy: Callable[[str | None], Policy]
    """What holds for everybody, of a model or of all."""
    terms: EvictionSettings
    """What becomes of pods whose booking is over."""
    clock: Clock
    metrics: ServerMetrics
