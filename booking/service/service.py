"""The one way to bookings: REST, page and CLI ask this service, and it alone writes to the store.

Every decision is made inside the transaction that stores it, by the clock's time in there, so that nothing
can come between (law L5). Nothing waits for a timer: the state of a booking is computed when it is read.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from booking.capacity import Capacity
from booking.evaluation.alternatives import Alternative
from booking.evaluation.evaluate import Decision
from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.principals import Principal
from booking.records import BookingRequest, Change, Record, Slot, SlotRequest
from booking.service import (
    administration,
    changing,
    creating,
    ending,
    queries,
    risks,
    slots,
)
from booking.service.authorization import Expected
from booking.service.cluster_orders import ClusterOrders
from booking.service.context import Evictions, GpuOrders, ServiceContext, random_id
from booking.service.current_policy import CurrentPolicy
from booking.service.ending import Ending
from booking.service.idempotency import Key, answered, spend
from booking.service.overview import Overview
from booking.service.pagination import Page
from booking.service.queries import ModelAvailability
from booking.store import Store
from booking.store_records import AuditEntry, Block, Denied, Exemption, Filters
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.process.clock import Clock


class BookingService(ClusterOrders):
    """Bookings of a cluster. Every method may be called by any thread.

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
        """Args: capacity: asked before each transaction; new_id: a name; evictions, gpus: take orders."""
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

    # --- asking for GPUs -------------------------------------------------------------------------------
    def create(
        self, who: Principal, request: BookingRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Book; for ``user``, by their rules, where an administrator asks for somebody else.

        The same key with the same request gets the same answer; a refused one is judged again, and keeps its
        key for itself all the same.

        Raises:
            RefusedError: with everything that is wrong with the request, and what would be accepted.
            NotAllowedError: for somebody else, by no administrator.
            KeyReusedError: the key was used for another request.
        """
        return creating.create(self._context, who, request, user=user, key=key)

    def dry_run(self, who: Principal, request: BookingRequest, *, user: str | None = None) -> Decision:
        """What ``create`` would answer now; nothing is stored.

        Raises:
            NotAllowedError: for somebody else, by no administrator.
        """
        return creating.dry_run(self._context, who, request, user=user)

    def earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None, most: int = 3
    ) -> tuple[Slot, ...]:
        """The first slots for so many GPUs for so long, at most ``most``, each of which could be booked now.

        Each begins on another day than the one before, or after it where they are shorter than a day.

        Raises:
            RefusedError: there is none: the deadline is too early, a rule is in the way, or no instant could
                grant it; with everything that is wrong.
            NotAllowedError: for somebody else, by no administrator.
        """
        return slots.earliest(self._context, who, booking_request, user=user, most=most)

    def create_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None, key: Key | None = None
    ) -> Record:
        """Book the first slot for so many GPUs for so long: found and taken in one transaction.

        Raises:
            RefusedError: as of ``earliest``.
            NotAllowedError: for somebody else, by no administrator.
            KeyReusedError: the key was used for another request.
        """
        return creating.create_earliest(self._context, who, booking_request, user=user, key=key)

    def dry_run_earliest(
        self, who: Principal, booking_request: SlotRequest, *, user: str | None = None
    ) -> Decision:
        """What ``create_earliest`` would answer now; nothing is stored.

        Raises:
            RefusedError: as of ``earliest``.
            NotAllowedError: for somebody else, by no administrator.
        """
        return creating.dry_run_earliest(self._context, who, booking_request, user=user)

    def replayed(self, who: Principal, key: Key | None) -> Record | None:
        """What this request was answered before; None where it is new, was refused or has no key.

        Raises:
            KeyReusedError: the key was used for another request.
        """
        return self._context.store.read(lambda reading: answered(reading, who, key, Record))

    def spend(self, who: Principal, key: Key | None) -> None:
        """A request was refused before it came here: no other one may have its key.

        Raises:
            KeyReusedError: the key was used for another request.
        """
        spend(self._context, who, key)

    # --- seeing ----------------------------------------------------------------------------------------
    def list(
        self, who: Principal, filters: Filters | None = None, *, after: str | None = None, limit: int = 100
    ) -> Page[Record]:
        """Bookings by start and id, a page at a time: one's own, or as an administrator anybody's.

        Args:
            who: asks. An administrator who names no ``filters.user`` sees everybody's.
            filters: which; by default planned and active ones.
            after: ``Page.following`` of the page before. It stays good whatever is booked in between.
            limit: at most so many; at least 1.

        Raises:
            RefusedError: an ``after`` that no page has ever given.
            NotAllowedError: somebody else's, by no administrator.
        """
        return queries.listed(self._context, who, filters or Filters(past=False), after=after, limit=limit)

    def show(self, who: Principal, booking_id: str) -> Record:
        """A booking of one's own, or as an administrator anybody's.

        Raises:
            UnknownBookingError: there is none of that id that this user may see.
        """
        return queries.show(self._context, who, booking_id)

    def availability(
        self, who: Principal, model: str | None, start: datetime, end: datetime
    ) -> tuple[ModelAvailability, ...]:
        """The free devices in ``[start, end)``, of one model or of all.

        Raises:
            RefusedError: an unknown model, or a span that is none.
        """
        return queries.availability(self._context, who, model, start=start, end=end)

    def overview(self, who: Principal, start: datetime, end: datetime) -> Overview:
        """Capacity, bookings and blocks of all models in ``[start, end)``.

        Raises:
            RefusedError: a span that is none.
        """
        return queries.overview(self._context, who, start, end)

    def at_risk(self, records: Iterable[Record]) -> frozenset[str]:
        """Ids of those of these bookings that cannot be kept as things are. None is cancelled by itself."""
        return risks.at_risk(self._context, records)

    def affected(self, block: Block) -> tuple[Record, ...]:
        """Bookings during a block that cannot be kept as things are, by start."""
        return risks.affected(self._context, block)

    def alternatives(self, who: Principal, booking_id: str) -> tuple[Alternative, ...]:
        """What somebody could have instead of a booking that is at risk; none for one that is not.

        Raises:
            UnknownBookingError: there is none of that id that this user may see.
        """
        return risks.alternatives(self._context, who, booking_id)

    def limits(self, who: Principal, *, model: str | None = None) -> Mapping[str, Any]:
        """What holds for this user now, by name of the knob; lengths are ISO 8601."""
        return queries.limits(self._context, who, model=model)

    # --- changing and ending ---------------------------------------------------------------------------
    def change(
        self,
        who: Principal,
        booking_id: str,
        change: Change,
        *,
        expected: Expected = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """Extend, shorten, move, make larger or smaller: judged again, without the booking itself.

        One transaction: it is as requested, or as it was. One that is shortened to now or before is released.

        Raises:
            UnknownBookingError: there is none of that id that this user may change.
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
        change: Change,
        *,
        expected: Expected = None,
        reason: str | None = None,
    ) -> Decision:
        """What ``change`` would answer now; nothing is stored.

        Raises:
            UnknownBookingError: there is none of that id that this user may change.
            StaleError: its version is not ``expected``.
            RefusedError: it is over, or its start is past and cannot move; or it is somebody else's, and
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
        """Give a running booking back: it ends with this second, and the cooldown counts from it.

        An administrator ends somebody else's, with a reason; it does not count for their cooldown then.

        Raises:
            UnknownBookingError: there is none of that id that this user may end.
            StaleError: its version is not ``expected``.
            RefusedError: it does not run; or it is somebody else's, and there is no reason.
            KeyReusedError: the key was used for another request.
        """
        return ending.release(self._context, who, booking_id, expected=expected, reason=reason, key=key)

    def cancel(
        self,
        who: Principal,
        booking_id: str,
        *,
        expected: Expected = None,
        reason: str | None = None,
        key: Key | None = None,
    ) -> Record:
        """Take a planned booking back; somebody else's as an administrator, with a reason.

        Raises:
            UnknownBookingError: there is none of that id that this user may take back.
            StaleError: its version is not ``expected``.
            RefusedError: it is not planned; or it is somebody else's, and there is no reason.
            KeyReusedError: the key was used for another request.
        """
        return ending.cancel(self._context, who, booking_id, expected=expected, reason=reason, key=key)

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
            UnknownBookingError: there is none of that id that this user may end.
            StaleError: its version is not ``expected``.
            RefusedError: as of the verb.
        """
        return ending.dry_run(self._context, who, booking_id, verb, expected=expected, reason=reason)

    # --- administration --------------------------------------------------------------------------------
    def blocks(self, who: Principal) -> tuple[Block, ...]:
        """Maintenance that is not over, by start; everybody may see it."""
        del who
        return administration.blocks(self._context)

    def block_page(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Block]:
        """Maintenance that is not over, by start, a page at a time; everybody may see it.

        Raises:
            RefusedError: an ``after`` that no page has ever given.
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
        """Take devices of a node out of the bookable capacity. Bookings in the way are at risk then.

        A dry run of this, and of the others below, stores and audits nothing: it returns the would-be answer.

        Raises:
            NotAllowedError: by no administrator.
            RefusedError: with everything that is wrong with it.
            KeyReusedError: the key was used for another request.
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
        """Give them back: a planned block is removed, one that has begun ends now. The block as it was.

        Raises:
            NotAllowedError: by no administrator.
            RefusedError: with a reason that is none.
            UnknownBlockError: there is none of that id.
            KeyReusedError: the key was used for another request.
        """
        return administration.remove_block(
            self._context, who, block_id, reason=reason, key=key, dry_run=dry_run
        )

    def exemptions(
        self, who: Principal, *, user: str | None = None, after: str | None = None, limit: int = 100
    ) -> Page[Exemption]:
        """Exemptions that are not over, by start, a page at a time: one's own; an administrator sees all.

        Raises:
            NotAllowedError: somebody else's, by no administrator.
            RefusedError: an ``after`` that no page has ever given.
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
        """Let other limits hold for a user for a while.

        Raises:
            NotAllowedError: by no administrator.
            RefusedError: with everything that is wrong with it.
            KeyReusedError: the key was used for another request.
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
        """Let an exemption end; what was accepted under it stays. What it was, is returned.

        Raises:
            NotAllowedError: by no administrator.
            RefusedError: with a reason that is none.
            UnknownExemptionError: there is none of that id.
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
        """Who changed what, newest first, a page at a time; of one thing, by one user, or all.

        Raises:
            NotAllowedError: by no administrator.
            RefusedError: an ``after`` that no page has ever given.
        """
        return administration.audit(
            self._context, who, subject=subject, actor=actor, after=after, limit=limit
        )

    def denied(self, who: Principal, *, after: str | None = None, limit: int = 100) -> Page[Denied]:
        """Requests that were not granted, newest first, a page at a time.

        Raises:
            NotAllowedError: by no administrator.
            RefusedError: an ``after`` that no page has ever given.
        """
        return administration.denied(self._context, who, after=after, limit=limit)
