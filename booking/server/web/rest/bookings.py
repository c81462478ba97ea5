"""Bookings by REST: create, try, list, show, change, release, cancel."""

from collections.abc import Sequence
from http import HTTPStatus

from msgspec import UNSET

from booking.eviction import end_effects
from booking.principals import Principal
from booking.server.errors import RefusedError
from booking.server.evaluation.evaluate import Decision
from booking.server.records import BookingChange, Record
from booking.server.service import Key
from booking.server.service.ending import Ending
from booking.server.store_records import Filters
from booking.server.web.interfaces import Parts
from booking.server.web.mirror_barrier import NOT_YET, MirrorBarrier
from booking.server.web.problems import REFUSED, ProblemError, offer, refusal
from booking.server.web.rest.etags import expected, tag_of
from booking.server.web.rest.idempotency_keys import key_of
from booking.server.web.rest.request_mapping import SlotLike, booking_request_of
from booking.server.web.rest.requests import BookingBody, ChangeBody, DryRun, EndBody, SlotBody, WhichBookings
from booking.server.web.rest.responses import BookingPage, WouldBe, booking_answer
from booking.server.web.rest.routes import Nothing, ReadRequest, Reply
from booking.server.web.rest.slots import slot_request_of
from cluster import names


class BookingViews:
    """The routes below ``/bookings``, one method for each."""

    def __init__(self, parts: Parts, *, root: str) -> None:
        """Args: root: the path before ``/bookings``."""
        self._parts = parts
        self._root = root
        self._guarantee = MirrorBarrier(parts.mirror, parts.not_guaranteed_reason, parts.unknown_capacity)

    def create(self, call: ReadRequest[DryRun, BookingBody]) -> Reply:
        """``POST /bookings``: 201; with ``dry_run=true`` 200 and nothing stored."""
        request = booking_request_of(call.body, self._parts.clock.now(), self._parts.zone())
        if request.complaints:
            raise self._malformed(call, request)
        if call.query.dry_run:
            key_of(call)
            self._guarantee.require_capacity()
            return self._try(call, request)
        key = key_of(call)
        record = self._before(call.who, key)
        try:
            record = record or self._parts.bookings.create(
                call.who, request.request, user=_user(call), key=key
            )
        except RefusedError as refused:
            raise request.refused(
                refused.violations, refused.earliest_start, refused.alternatives
            ) from refused
        return self._booked(record)

    def create_earliest(self, call: ReadRequest[DryRun, SlotBody]) -> Reply:
        """``POST /slots/booking``: the first slot, found and booked in one step."""
        body, key = call.body.made(), key_of(call)
        request = slot_request_of(body)
        if call.query.dry_run:
            self._guarantee.require_capacity()
            decision = self._parts.bookings.dry_run_earliest(call.who, request, user=body.user)
            return Reply(body=self._would_be(_granted(decision), body.user or call.who.user))
        record = self._before(call.who, key)
        return self._booked(
            record or self._parts.bookings.create_earliest(call.who, request, user=body.user, key=key)
        )

    def list(self, call: ReadRequest[WhichBookings, Nothing]) -> Reply:
        """``GET /bookings``: the caller's, for an administrator all users', by start."""
        query = call.query
        is_about_time = query.state is not None or query.start is not None or query.end is not None
        filters = Filters(
            user=query.user,
            model=None if query.model is None else names.model_label(query.model),
            state=query.state,
            start=query.start,
            end=query.end,
            past=is_about_time if query.past is None else query.past,
        )
        page = self._parts.bookings.list(call.who, filters, after=query.after, limit=query.limit)
        now = self._parts.clock.now()
        at_risk = self._at_risk(page.entries)
        bookings = tuple(booking_answer(record, now, at_risk=record.id in at_risk) for record in page.entries)
        return Reply(body=BookingPage(bookings=bookings, following=page.following))

    def show(self, call: ReadRequest[Nothing, Nothing]) -> Reply:
        """``GET /bookings/{id}``, with its version."""
        record = self._parts.bookings.show(call.who, call.path["id"])
        at_risk = bool(self._at_risk([record]))
        instead = self._parts.bookings.alternatives(call.who, record.id) if at_risk else ()
        now = self._parts.clock.now()
        answer = booking_answer(record, now, at_risk=at_risk, alternatives=tuple(map(offer, instead)))
        return Reply(body=answer, headers={"ETag": tag_of(record)})

    def change(self, call: ReadRequest[DryRun, ChangeBody]) -> Reply:
        """``PATCH /bookings/{id}``: longer, shorter, later, larger; in one transaction or not at all."""
        body = call.body.made()
        booking, key = call.path["id"], key_of(call)
        wanted = expected(call.headers)
        change = BookingChange(
            start=body.start,
            end=body.end,
            count=body.count,
            memory=body.memory,
            namespace=body.namespace,
        )
        if call.query.dry_run:
            self._guarantee.require_capacity()
            decision = self._parts.bookings.dry_run_change(
                call.who, booking, change, expected=wanted, reason=body.reason
            )
            owner = self._parts.bookings.show(call.who, booking).user
            return Reply(body=self._would_be(_granted(decision), owner))
        record = self._before(call.who, key) or self._parts.bookings.change(
            call.who, booking, change, expected=wanted, reason=body.reason, key=key
        )
        return self._confirmed(record, HTTPStatus.OK, at_risk=bool(self._at_risk([record])))

    def release(self, call: ReadRequest[DryRun, EndBody]) -> Reply:
        """``POST /bookings/{id}/release``: a running one ends now."""
        return self._end(call, "release")

    def cancel(self, call: ReadRequest[DryRun, EndBody]) -> Reply:
        """``DELETE /bookings/{id}``: a planned one is cancelled."""
        return self._end(call, "cancel")

    def _end(self, call: ReadRequest[DryRun, EndBody], verb: Ending) -> Reply:
        body, bookings = call.body.made(), self._parts.bookings
        booking, key = call.path["id"], key_of(call)
        wanted = expected(call.headers)
        if call.query.dry_run:
            record = bookings.dry_run_end(call.who, booking, verb, expected=wanted, reason=body.reason)
            pods = end_effects.before(self._parts.terms) if record.released else None
            return Reply(body=booking_answer(record, self._parts.clock.now(), pods=pods, dry_run=True))
        end = bookings.release if verb == "release" else bookings.cancel
        record = self._before(call.who, key, judges=False) or end(
            call.who, booking, expected=wanted, reason=body.reason, key=key
        )
        return self._confirmed(record, HTTPStatus.OK)

    def _at_risk(self, records: Sequence[Record]) -> frozenset[str]:
        """The ids at risk; empty while that is not known."""
        return frozenset() if self._parts.unknown_capacity() else self._parts.bookings.at_risk(records)

    def _before(self, who: Principal, key: Key | None, *, judges: bool = True) -> Record | None:
        """The earlier answer to the request, if nothing can be guaranteed now (``MirrorBarrier``)."""
        return self._guarantee.answered_before(lambda: self._parts.bookings.replayed(who, key), judges=judges)

    def _booked(self, record: Record) -> Reply:
        location = f"{self._root}/bookings/{record.id}"
        return self._confirmed(record, HTTPStatus.CREATED, {"Location": location})

    def _confirmed(
        self,
        record: Record,
        status: HTTPStatus,
        headers: dict[str, str] | None = None,
        *,
        at_risk: bool = False,
    ) -> Reply:
        """The stored booking; status 202 instead if it is not in the cluster in time."""
        mirrored = self._guarantee.written(record)
        note = None if mirrored else NOT_YET
        now = self._parts.clock.now()
        pods = self._of_pods(record, mirrored=mirrored)
        is_over = bool(record.released or record.cancelled)
        answer = booking_answer(
            record,
            now,
            mirrored=mirrored,
            note=note,
            pods=pods,
            at_risk=at_risk,
            warnings=() if is_over else self._warnings(record, record.user),
        )
        return Reply(
            body=answer,
            status=status if mirrored else HTTPStatus.ACCEPTED,
            headers={**(headers or {}), "ETag": tag_of(record)},
        )

    def _of_pods(self, record: Record, *, mirrored: bool) -> str | None:
        """What happens to the pods of a released booking: they end once the cluster knows."""
        if not record.released:
            return None
        return (end_effects.after if mirrored else end_effects.before)(self._parts.terms)

    def _warnings(self, booked: Record | Decision, user: str) -> tuple[str, ...]:
        live = self._parts.live
        is_shared = booked.memory is not None
        return tuple(
            live.quota_warnings(user, booked.namespace, booked.count, booked.model, is_shared=is_shared)
        )

    def _would_be(self, decision: Decision, user: str) -> WouldBe:
        """The answer to a dry run: the booking that would be stored."""
        if decision.start is None or decision.end is None:
            raise RuntimeError("What is accepted has a start and an end.")
        return WouldBe(
            dry_run=True,
            user=user,
            model=decision.model,
            count=decision.count,
            topology=decision.topology,
            namespace=decision.namespace,
            start=decision.start,
            end=decision.end,
            nodes=decision.plan,
            memory=UNSET if decision.memory is None else decision.memory,
            warnings=self._warnings(decision, user),
        )

    def _try(self, call: ReadRequest[DryRun, BookingBody], request: SlotLike) -> Reply:
        user = _user(call)
        decision = self._parts.bookings.dry_run_create(call.who, request.request, user=user)
        if not decision.is_accepted:
            raise request.refused(decision.violations, decision.earliest_start, decision.alternatives)
        return Reply(body=self._would_be(decision, user or call.who.user))

    def _malformed(self, call: ReadRequest[DryRun, BookingBody], request: SlotLike) -> ProblemError:
        """The problem with everything that cannot be parsed, and what the rules say about the rest."""
        # Unless it is a 400, it was parsed and refused: the key belongs to this request.
        if request.problem is REFUSED and not call.query.dry_run:
            self._parts.bookings.spend(call.who, key_of(call))
        if self._parts.unknown_capacity() or "user" in request.unread:
            return request.refused(())
        decision = self._parts.bookings.dry_run_create(call.who, request.request, user=_user(call))
        return request.refused(decision.violations)


def _user(call: ReadRequest[DryRun, BookingBody]) -> str | None:
    user: str | None = call.body.values.get("user")
    return user


def _granted(decision: Decision) -> Decision:
    if not decision.is_accepted:
        raise refusal(RefusedError(decision.violations, decision.earliest_start, decision.alternatives))
    return decision
