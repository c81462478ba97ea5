"""The dependencies of the REST API: interfaces, so that tests can pass fakes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Protocol

import msgspec

from booking.cluster_status import ModelNow, Now, Queue, SharesOverTime, Why
from booking.evaluation.alternatives import Alternative
from booking.evaluation.evaluate import Decision
from booking.eviction_settings import EvictionSettings
from booking.policy.policy import FILE_VERSION
from booking.principals import Principal
from booking.records import BookingRequest, Change, Record, Slot, SlotRequest
from booking.server_metrics import ServerMetrics
from booking.service import Key, KnownNames, ModelAvailability, Page
from booking.service.context import GpuOrder, PodToEvict
from booking.service.ending import Ending
from booking.store_records import AuditEntry, Block, Denied, Exemption, Filters
from cluster.process.clock import Clock
from cluster.process.probes import Check


class Bookings(Protocol):
    """What REST uses of ``booking.service.BookingService``, which documents the errors."""

    def create(
        self, who: Principal, request: BookingRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Store a booking that the policy accepts; see ``booking.service``."""
        ...

    def dry_run(self, who: Principal, request: BookingRequest, *, user: str | None = None) -> Decision:
        """The answer that ``create`` would give."""
        ...

    def earliest(
        self,
        who: Principal,
        booking_request: SlotRequest,
        *,
        user: str | None = None,
        despite_planned: bool = False,
    ) -> Sequence[Slot]:
        """The first slots that could be booked now, or if the user's planned bookings did not count."""
        ...

    def create_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Book the first slot."""
        ...

    def dry_run_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None
    ) -> Decision:
        """The answer that ``create_earliest`` would give."""
        ...

    def replayed(self, who: Principal, key: Key | None) -> Record | None:
        """The earlier answer to a request with this key; None if there was none."""
        ...

    def spend(self, who: Principal, key: Key | None) -> None:
        """Mark the key of a request that was refused before it reached the service as used."""
        ...

    def list(
        self, who: Principal, filters: Filters | None = None, *, after: str | None = None, limit: int = 100
    ) -> Page[Record]:
        """A page of the caller's bookings; for an administrator, of any user's."""
        ...

    def show(self, who: Principal, booking_id: str) -> Record:
        """One of the caller's bookings; administrators see all users'."""
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
        """Change a booking: its times, the number of GPUs, its namespace."""
        ...

    def dry_run_change(
        self,
        who: Principal,
        booking_id: str,
        change: Change,
        *,
        expected: str | frozenset[str] | None = None,
        reason: str | None = None,
    ) -> Decision:
        """The answer that ``change`` would give."""
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
        """End a running booking now."""
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
        """Cancel a planned booking."""
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
        """The answer that ``release`` or ``cancel`` would give."""
        ...

    def availability(
        self, who: Principal, model: str | None, start: datetime, end: datetime
    ) -> Sequence[ModelAvailability]:
        """The free devices, by model."""
        ...

    def at_risk(self, records: Iterable[Record]) -> frozenset[str]:
        """Ids of the bookings that cannot be kept at present."""
        ...

    def affected(self, block: Block) -> Sequence[Record]:
        """Bookings during a block that cannot be kept at present."""
        ...

    def alternatives(self, who: Principal, booking_id: str) -> Sequence[Alternative]:
        """The alternatives to a booking that is at risk."""
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

    def block_page(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Block]:
        """Maintenance blocks that are not over, a page at a time."""
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
        """Add a maintenance block: GPUs of a node cannot be booked for a time."""
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
        """Remove a maintenance block; one that has begun ends now."""
        ...

    def exemptions(
        self, who: Principal, *, user: str | None = None, after: str | None = None, limit: int = 100
    ) -> Page[Exemption]:
        """Exemptions that are not over, a page at a time."""
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
        """Set other limits for a user for a while."""
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
        """End an exemption; what was accepted under it stays."""
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
        """A page of the audit log, newest first."""
        ...

    def denied(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Denied]:
        """A page of refused requests, newest first."""
        ...

    def evict(self, who: Principal, namespace: str, pod: str, reason: str, *, key: Key | None = None) -> None:
        """Order the eviction of a pod."""
        ...

    def dry_run_evict(self, who: Principal, namespace: str, pod: str, reason: str) -> PodToEvict:
        """The pod that ``evict`` would evict."""
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
        """Order a GPU to be cordoned or cleared; returns its UUID."""
        ...


class Live(Protocol):
    """What pages and REST use of ``booking.cluster_status.ClusterStatus``, which documents the errors."""

    def now(self, who: Principal) -> Now:
        """Nodes, devices, their holders, and the order of eviction."""
        ...

    def shares_over_time(self, who: Principal) -> Sequence[SharesOverTime]:
        """Who held and deserved how many GPUs without a booking within a day."""
        ...

    def models(self) -> Sequence[ModelNow]:
        """How many GPUs of each model are bookable, lent, idle though booked and in use."""
        ...

    def why(self, who: Principal, namespace: str, name: str) -> Why:
        """Why a pod waits, or holds what it holds."""
        ...

    def queue(self, who: Principal, model: str | None = None) -> Queue:
        """Who waits for GPUs without a booking, in the order of their turns."""
        ...

    def quota_warnings(
        self, user: str, namespace: str | None, count: int, model: str, *, is_shared: bool = False
    ) -> Sequence[str]:
        """Warnings that a quota of the namespace may refuse pods of so many booked GPUs or shares."""
        ...

    def mine(self, who: Principal) -> Sequence[tuple[str, str]]:
        """Namespace and name of the caller's pods."""
        ...


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says for users who are in no group and have no exemption."""

    version: str
    """Version of the policy's contents: it differs if the meaning does."""
    file_version: int = FILE_VERSION
    """``version`` of the format of policy files."""
    zone: str
    """Name of the site's time zone, in which days are counted."""
    limits: Mapping[str, Any]
    """Name of a limit -> its value; lengths are ISO 8601."""


class Mirrored(Protocol):
    """What REST uses of ``booking.mirror.mirror.Mirror``."""

    def trigger(self) -> None:
        """Make the mirror begin a round, since the database has changed."""
        ...

    def written(self, change: int, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a change; returns whether its objects are written."""
        ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All dependencies of the API."""

    bookings: Bookings
    live: Live
    mirror: Mirrored
    not_guaranteed_reason: Check
    """Why no change can be guaranteed now, so that none is accepted."""
    unknown_capacity: Check
    """Why the number of GPUs is not known now."""
    zone: Callable[[], tzinfo]
    """The site's zone, in which days are counted."""
    policy: Callable[[str | None], Policy]
    """The policy for all users, for one model or for all."""
    terms: EvictionSettings
    """What happens to pods whose booking is over."""
    clock: Clock
    metrics: ServerMetrics
