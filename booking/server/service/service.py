"""The only way to bookings: REST, page and CLI use this service, and only it writes to the store.

Every decision is made inside the transaction that stores it, by the clock's time in there, so that nothing
can change in between (law L5). Nothing waits for a timer: the state of a booking is computed when it is read.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.alternatives import Alternative
from booking.server.evaluation.evaluate import Decision
from booking.server.records import BookingChange, BookingRequest, Record, Slot, SlotRequest
from booking.server.service import (
    administration,
    changing,
    creating,
    ending,
    queries,
    risks,
    slots,
)
from booking.server.service.authorization import Expected
from booking.server.service.cluster_orders import ClusterOrders
from booking.server.service.context import Evictions, GpuOrders, ServiceContext, random_id
from booking.server.service.current_policy import CurrentPolicy
from booking.server.service.ending import Ending
from booking.server.service.idempotency import Key, answered, spend
from booking.server.service.known_names import KnownNames, known_names
from booking.server.service.overview import Overview
from booking.server.service.pagination import Page
from booking.server.service.queries import ModelAvailability
from booking.server.store import Store
from booking.server.store_records import AuditEntry, Block, Denied, Exemption, Filters
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.process.clock import Clock


class BookingService(ClusterOrders):
    """Bookings of a cluster. Thread-safe.

    The first argument is the caller: ``Principal.is_administrator`` and the owner of the bookings decide what
    they may do. Texts of any kind (id, reason, namespace, pod, user) may contain anything.

    Every method may raise ``StoreError``: the database cannot be used; nothing was changed.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        policy: Limits | Callable[[], Policy],
        capacity: Callable[[], Capacity],
        *,
        new_id: Callable[[], str] = random_id,
        evictions: Evictions | None = None,
        gpus: GpuOrders | None = None,
        identity_rules: tuple[Rule, ...] = DEFAULT_RULES,
    ) -> None:
        """Args: capacity: called before each transaction; new_id: makes ids; evictions, gpus: take orders."""
        super().__init__(
            ServiceContext(
                store,
                clock,
                CurrentPolicy(policy),
                capacity,
                new_id=new_id,
                evictions=evictions,
                gpus=gpus,
                identity_rules=identity_rules,
            )
        )

    # --- requesting GPUs ---------------------------------------------------------------------------------
    def create(
        self, who: Principal, request: BookingRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Create a booking; for ``user``, by their limits, if an administrator books on their behalf.

        The same key with the same request gets the same answer; a refused request is evaluated again, and no
        other request may use its key.

        Raises:
            RefusedError: with everything that is wrong with the request, and what would be accepted.
            NotAllowedError: for another user, by a caller who is not an administrator.
            KeyReusedError: the key was used for another request.
        """
        return creating.create(self._context, who, request, user=user, key=key)

    def dry_run_create(self, who: Principal, request: BookingRequest, *, user: str | None = None) -> Decision:
        """The answer that ``create`` would give now; nothing is stored.

        Raises:
            NotAllowedError: for another user, by a caller who is not an administrator.
        """
        return creating.dry_run(self._context, who, request, user=user)

    def earliest(
        self,
        who: Principal,
        booking_request: SlotRequest,
        *,
        user: str | None = None,
        most: int = 3,
        despite_planned: bool = False,
    ) -> tuple[Slot, ...]:
        """The first slots, at most ``most``, for so many GPUs for so long; each could be booked now.

        Each begins on another day than the one before, or after its end if that is earlier.
        ``despite_planned``: as if the user's planned bookings did not count, but for their GPUs.

        Raises:
            RefusedError: the deadline is too early, a rule forbids it, or no start would be granted.
            NotAllowedError: for another user, by a caller who is not an administrator.
        """
        return slots.earliest(
            self._context, who, booking_request, user=user, most=most, despite_planned=despite_planned
        )

    def create_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Book the first slot for so many GPUs for so long: found and taken in one transaction.

        Raises:
            RefusedError: as for ``earliest``.
            NotAllowedError: for another user, by a caller who is not an administrator.
            KeyReusedError: the key was used for another request.
        """
        return creating.create_earliest(self._context, who, booking_request, user=user, key=key)

    def dry_run_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None
    ) -> Decision:
        """The answer that ``create_earliest`` would give now; nothing is stored.

        Raises:
            RefusedError: as for ``earliest``.
            NotAllowedError: for another user, by a caller who is not an administrator.
        """
        return creating.dry_run_earliest(self._context, who, booking_request, user=user)

    def replayed(self, who: Principal, key: Key | None) -> Record | None:
        """The earlier answer to this request; None if it is new, was refused or has no key.

        Raises:
            KeyReusedError: the key was used for another request.
        """
        return self._context.store.read(lambda reading: answered(reading, who, key, Record))

    def spend(self, who: Principal, key: Key | None) -> None:
        """Mark the key of a request that was refused before it reached the service as used.

        Raises:
            KeyReusedError: the key was used for another request.
        """
        spend(self._context, who, key)

    # --- queries -----------------------------------------------------------------------------------------
    def list(
        self, who: Principal, filters: Filters | None = None, *, after: str | None = None, limit: int = 100
    ) -> Page[Record]:
        """Bookings by start and id, a page at a time: the caller's own, for an administrator all users'.

        Args:
            who: the caller. An administrator who sets no ``filters.user`` sees all users'.
            filters: which bookings; by default planned and active ones.
            after: ``Page.following`` of the page before. It stays valid whatever is booked in between.
            limit: number of entries at most; at least 1.

        Raises:
            RefusedError: an ``after`` that no page has ever returned.
            NotAllowedError: another user's, by a caller who is not an administrator.
        """
        return queries.listed(self._context, who, filters or Filters(past=False), after=after, limit=limit)

    def show(self, who: Principal, booking_id: str) -> Record:
        """One of the caller's bookings; for an administrator, of any user.

        Raises:
            UnknownBookingError: there is no booking of that id that this user may see.
        """
        return queries.show(self._context, who, booking_id)

    def availability(
        self, who: Principal, model: str | None, start: datetime, end: datetime
    ) -> tuple[ModelAvailability, ...]:
        """The free devices in ``[start, end)``, of one model or of all.

        Raises:
            RefusedError: an unknown model, or an invalid span.
        """
        return queries.availability(self._context, who, model, start=start, end=end)

    def bookable(self) -> Mapping[str, int]:
        """Model -> GPUs that the calendar leaves for a booking that begins now."""
        return queries.bookable(self._context)

    def overview(self, who: Principal, start: datetime, end: datetime) -> Overview:
        """Capacity, bookings and blocks of all models in ``[start, end)``.

        Raises:
            RefusedError: an invalid span.
        """
        return queries.overview(self._context, who, start, end)

    def at_risk(self, records: Iterable[Record]) -> frozenset[str]:
        """Ids of those of these bookings that cannot be kept at present. None is cancelled automatically."""
        return risks.at_risk(self._context, records)

    def affected(self, block: Block) -> tuple[Record, ...]:
        """Bookings during a block that cannot be kept at present, by start."""
        return risks.affected(self._context, block)

    def alternatives(self, who: Principal, booking_id: str) -> tuple[Alternative, ...]:
        """What the owner could have instead of a booking that is at risk; none for any other booking.

        Raises:
            UnknownBookingError: there is no booking of that id that this user may see.
        """
        return risks.alternatives(self._context, who, booking_id)

    def limits(self, who: Principal, *, model: str | None = None) -> Mapping[str, Any]:
        """The caller's limits now, by name of the limit; lengths are ISO 8601."""
        return queries.limits(self._context, who, model=model)

    def known_names(self, who: Principal) -> KnownNames:
        """The names of each source by which the caller is known."""
        return known_names(self._context, who)

    # --- changing and ending ---------------------------------------------------------------------------
    def change(
        self,
        who: Principal,
        booking_id: str,
        change: BookingChange,
        *,
        expected: Expected = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """Extend, shorten, move, enlarge or reduce a booking: evaluated again, without the booking itself.

        In one transaction: it becomes as requested, or stays as it was. One that is shortened to now or
        before is released.

        Raises:
            UnknownBookingError: there is no booking of that id that this user may change.
            StaleError: its version is not ``expected``.
            RefusedError: it is over, its start is past and cannot move, or the request has violations.
            KeyReusedError: the key was used for another request.
        """
        return changing.change(
            self._context, who, booking_id, change, expected=expected, reason=reason, key=key
        )

    def dry_run_change(
        self,
        who: Principal,
        booking_id: str,
        change: BookingChange,
        *,
        expected: Expected = None,
        reason: str | None = None,
    ) -> Decision:
        """The answer that ``change`` would give now; nothing is stored.

        Raises:
            UnknownBookingError: there is no booking of that id that this user may change.
            StaleError: its version is not ``expected``.
            RefusedError: it is over, or its start is past and cannot move; or it is another user's, and
                there is no reason.
        """
        return changing.dry_run(self._context, who, booking_id, change, expected=expected, reason=reason)

    def release(
        self,
        who: Principal,
        booking_id: str,
        *,
        expected: Expected = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """Release a running booking: it ends with this second, and the cooldown counts from it.

        An administrator may end another user's, with a reason; it then does not count for the owner's
        cooldown.

        Raises:
            UnknownBookingError: there is no booking of that id that this user may end.
            StaleError: its version is not ``expected``.
            RefusedError: it does not run; or it is another user's, and there is no reason.
            KeyReusedError: the key was used for another request.
        """
        return ending.end(
            self._context, who, booking_id, "release", expected=expected, reason=reason, key=key
        )

    def cancel(
        self,
        who: Principal,
        booking_id: str,
        *,
        expected: Expected = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """Cancel a planned booking; an administrator may cancel another user's, with a reason.

        Raises:
            UnknownBookingError: there is no booking of that id that this user may cancel.
            StaleError: its version is not ``expected``.
            RefusedError: it is not planned; or it is another user's, and there is no reason.
            KeyReusedError: the key was used for another request.
        """
        return ending.end(self._context, who, booking_id, "cancel", expected=expected, reason=reason, key=key)

    def dry_run_end(
        self,
        who: Principal,
        booking_id: str,
        verb: Ending,
        *,
        expected: Expected = None,
        reason: str | None = None,
    ) -> Record:
        """The booking after a ``release`` or ``cancel`` now; nothing is stored.

        Raises:
            UnknownBookingError: there is no booking of that id that this user may end.
            StaleError: its version is not ``expected``.
            RefusedError: as for the verb.
        """
        return ending.dry_run(self._context, who, booking_id, verb, expected=expected, reason=reason)

    # --- administration --------------------------------------------------------------------------------
    def blocks(self, who: Principal) -> tuple[Block, ...]:
        """Maintenance that is not over, by start; every user may see it."""
        del who
        return administration.blocks(self._context)

    def block_page(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Block]:
        """Maintenance that is not over, by start, a page at a time; every user may see it.

        Raises:
            RefusedError: an ``after`` that no page has ever returned.
        """
        del who
        return administration.block_page(self._context, after=after, limit=limit)

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
        """Take devices of a node out of the bookable capacity. Bookings that no longer fit are at risk then.

        A dry run of this, and of the methods below, stores and audits nothing: it returns the would-be
        answer.

        Raises:
            NotAllowedError: the caller is not an administrator.
            RefusedError: with everything that is wrong with it. KeyReusedError: the key was used otherwise.
        """
        return administration.add_block(
            self._context,
            who,
            node=node,
            start=start,
            end=end,
            reason=reason,
            model=model,
            count=count,
            key=key,
            dry_run=dry_run,
        )

    def remove_block(
        self,
        who: Principal,
        block_id: str,
        *,
        reason: str | None = None,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> Block:
        """Remove a planned block, or end one that has begun. Returns the block as it was.

        Raises:
            NotAllowedError: the caller is not an administrator.
            RefusedError: the reason is invalid.
            UnknownBlockError: there is no block of that id.
            KeyReusedError: the key was used for another request.
        """
        return administration.remove_block(
            self._context, who, block_id, reason=reason, key=key, dry_run=dry_run
        )

    def exemptions(
        self, who: Principal, *, user: str | None = None, after: str | None = None, limit: int = 100
    ) -> Page[Exemption]:
        """Exemptions that are not over, by start, a page at a time: the caller's, for an administrator all.

        Raises:
            NotAllowedError: another user's, by a caller who is not an administrator.
            RefusedError: an ``after`` that no page has ever returned.
        """
        return administration.exemptions(self._context, who, user=user, after=after, limit=limit)

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
        """Set other limits for a user for a while.

        Raises:
            NotAllowedError: the caller is not an administrator.
            RefusedError: with everything that is wrong with it. KeyReusedError: the key was used otherwise.
        """
        return administration.add_exemption(
            self._context,
            who,
            user=user,
            start=start,
            end=end,
            limits=limits,
            reason=reason,
            model=model,
            key=key,
            dry_run=dry_run,
        )

    def remove_exemption(
        self,
        who: Principal,
        exemption_id: str,
        *,
        reason: str | None = None,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> Exemption:
        """End an exemption; what was accepted under it stays. Returns the exemption as it was.

        Raises:
            NotAllowedError: the caller is not an administrator.
            RefusedError: the reason is invalid. UnknownExemptionError: there is no exemption of that id.
            KeyReusedError: the key was used for another request.
        """
        return administration.remove_exemption(
            self._context, who, exemption_id, reason=reason, key=key, dry_run=dry_run
        )

    def audit(
        self,
        who: Principal,
        *,
        subject: str | None = None,
        actor: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[AuditEntry]:
        """Who changed what, newest first, a page at a time; about one subject, by one user, or all.

        Raises:
            NotAllowedError: not an administrator. RefusedError: an ``after`` that no page has returned.
        """
        return administration.audit(
            self._context, who, subject=subject, actor=actor, after=after, limit=limit
        )

    def denied(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Denied]:
        """Refused requests, newest first, a page at a time.

        Raises:
            NotAllowedError: the caller is not an administrator.
            RefusedError: an ``after`` that no page has ever returned.
        """
        return administration.denied(self._context, who, after=after, limit=limit)
