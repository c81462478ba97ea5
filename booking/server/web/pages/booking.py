"""*Availability* and *Book*: the free GPUs, and the form that requests them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

import msgspec
from flask import Response, request

from booking import durations, wording
from booking.server.capacity.capacity import Capacity
from booking.server.cluster_status import ModelNow
from booking.server.errors import ClusterError, RefusedError
from booking.server.evaluation.evaluate import Decision
from booking.server.records import BookingRequest, Slot, SlotRequest
from booking.server.service.overview import Overview
from booking.server.web.pages.availability_table import table_of
from booking.server.web.pages.booking_form import FormRequest, Texts, form_request_of, texts_of
from booking.server.web.pages.calendar_range import CalendarRange
from booking.server.web.pages.form_key import key_of, new_token
from booking.server.web.pages.form_result import (
    WHY,
    FormAnswer,
    accepted,
    fillers,
    later_of,
    model_title,
    nothing_now,
    refused,
    unreadable,
)
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.layout import PageLayout, Visit, is_fragment
from booking.server.web.pages.load_segments import free_at
from booking.server.web.pages.model_detail import inside_of
from booking.server.web.pages.own_limits import limits_text
from booking.server.web.pages.site_clock import BadTimeError
from booking.server.web.problems import UNKNOWN, ProblemError
from cluster import names

_CHECK: Final = "check"
"""In a query: evaluate the form at once."""
_MOMENT: Final = timedelta(seconds=1)
_AS_MUCH: Final = frozenset({"within-limits", "later", "earlier"})
"""Alternatives that are the request itself, within the limits, at some time."""
_SLOTS: Final = 3
"""Alternatives that are shown at most."""


@dataclass(frozen=True)
class Choice:
    """A model in the form's list."""

    label: str
    title: str
    free: int
    capacity: int


@dataclass(frozen=True)
class Form:
    """The form as the template reads it."""

    texts: Texts
    models: tuple[Choice, ...]
    answer: FormAnswer | None
    errors: dict[str, list[str]]
    limits: str
    """The user's own limits on the model, in words."""
    once: str = field(default_factory=new_token)
    """The form's key: submitted twice, by a second click, it books once."""


class BookingPages:
    """The page ``/`` and the fragments that htmx requests."""

    def __init__(self, parts: PageParts, frame: PageLayout) -> None:
        self._parts = parts
        self._frame = frame

    # --- addresses -----------------------------------------------------------------------------------
    def show(self) -> Response:
        """``GET /``; the query may fill the form, open a model and turn to later weeks."""
        visit = self._frame.visit()
        texts = texts_of(request.args)
        answer = self._answer(visit, texts) if _CHECK in request.args else None
        return self._page(visit, texts, answer)

    def fill(self) -> Response:
        """``GET /book``: only the form, filled from the query and evaluated."""
        if not is_fragment():
            return _see_other(f"/?{request.query_string.decode('ascii', 'replace')}")
        visit = self._frame.visit()
        texts = texts_of(request.args)
        form = self._form(visit, texts, self._answer(visit, texts), self._choices(visit))
        return self._frame.page("book.html", visit, form=form)

    def inside(self) -> Response:
        """``GET /inside``: nodes and table of a model."""
        if not is_fragment():
            return _see_other(f"/?{urlencode({'open': request.args.get('model', '')})}")
        visit = self._frame.visit()
        range_ = _range(visit)
        overview = self._overview(visit, range_)
        inside = inside_of(overview, range_, _known(overview.capacity, request.args.get("model", "")))
        return self._frame.page("inside.html", visit, inside=inside)

    def check(self) -> Response:
        """``POST /check``: the answer that booking would get; nothing is stored."""
        visit = self._frame.visit()
        texts = texts_of(request.form)
        answer = self._answer(visit, texts)
        if is_fragment():
            form = self._form(visit, texts, answer, ())
            return self._frame.page("checked.html", visit, form=form)
        return self._page(visit, texts, answer)

    def book(self) -> Response:
        """``POST /``: 303 to the booking, or the page again with everything that is wrong."""
        visit = self._frame.visit()
        texts = texts_of(request.form)
        form_request = form_request_of(texts, visit.clock, lambda model: self._offered(visit, model))
        if form_request.request is None:
            return self._page(visit, texts, unreadable(form_request.errors), HTTPStatus.UNPROCESSABLE_ENTITY)
        bookings, key = self._parts.bookings, key_of(texts.query().encode())
        # An accepted form that is submitted again gets its booking, even if nothing can be guaranteed now.
        record = self._parts.guarantee.answered_before(lambda: bookings.replayed(visit.who, key))
        try:
            record = record or bookings.create(
                visit.who, form_request.request, user=form_request.user, key=key
            )
        except RefusedError:
            # The alternatives come from the same evaluation, run again.
            answer = self._answer(visit, texts)
            return self._page(visit, texts, answer, HTTPStatus.UNPROCESSABLE_ENTITY)
        what = "booked" if self._parts.guarantee.written(record) else "stored"
        if record.user != visit.who.user:
            return _see_other(f"/admin/bookings?done={what}#{record.id}")
        return _see_other(f"/mine?{what}={record.id}#{record.id}")

    # --- helpers -------------------------------------------------------------------------------------
    def _page(
        self, visit: Visit, texts: Texts, answer: FormAnswer | None, status: HTTPStatus = HTTPStatus.OK
    ) -> Response:
        problem = self._parts.unknown_capacity()
        range_ = _range(visit)
        overview = None if problem else self._overview(visit, range_)
        opened = names.model_label(request.args.get("open", "")) or None
        models = () if problem else self._models()
        table = table_of(overview, range_, opened=opened, problem=problem, models=models)
        if range_.axis.shows(visit.clock.now):
            choices = [Choice(row.label, row.title, row.free, row.capacity) for row in table.rows]
        else:
            choices = self._choices(visit)
        form = self._form(visit, texts, answer, choices)
        return self._frame.page("availability.html", visit, status=status, table=table, form=form)

    def _form(self, visit: Visit, texts: Texts, answer: FormAnswer | None, choices: Sequence[Choice]) -> Form:
        """The form; a fresh one selects the model with the most free GPUs."""
        if choices and not texts.model:
            texts = replace(texts, model=max(choices, key=lambda choice: choice.free).label)
        limits = limits_text(self._parts.bookings.limits(visit.who, model=texts.model or None))
        return Form(texts, tuple(choices), answer, dict(answer.errors) if answer else {}, limits)

    def _choices(self, visit: Visit) -> list[Choice]:
        """The models to choose from, with their free GPUs now; none while that is not known."""
        if self._parts.unknown_capacity():
            return []
        now = visit.clock.now
        overview = self._parts.bookings.overview(visit.who, now, now + _MOMENT)
        return [
            Choice(model, model_title(model), free_at(overview, model, now), overview.capacity.total(model))
            for model in overview.capacity.models
        ]

    def _offered(self, visit: Visit, model: str) -> int | None:
        """MiB that a GPU of a model offers to shares; None while that is not known."""
        if self._parts.unknown_capacity():
            return None
        now = visit.clock.now
        return self._parts.bookings.overview(visit.who, now, now + _MOMENT).capacity.memories.get(model)

    def _models(self) -> Sequence[ModelNow]:
        try:
            return self._parts.live.models()
        except ClusterError:
            return ()

    def _overview(self, visit: Visit, range_: CalendarRange) -> Overview:
        return self._parts.bookings.overview(visit.who, range_.axis.start, range_.axis.end)

    def _answer(self, visit: Visit, texts: Texts) -> FormAnswer:
        form_request = form_request_of(texts, visit.clock, lambda model: self._offered(visit, model))
        if form_request.request is None:
            return unreadable(form_request.errors)
        problem = self._parts.unknown_capacity()
        if problem:
            return FormAnswer("bad", f"No answer is possible now. {problem}")
        try:
            decision = self._parts.bookings.dry_run_create(
                visit.who, form_request.request, user=form_request.user
            )
        except RefusedError as error:  # for a user who cannot exist
            return refused(error.violations, visit.clock)
        if decision.is_accepted:
            user = form_request.user or visit.who.user
            warnings = self._parts.live.quota_warnings(
                user,
                decision.namespace,
                decision.count,
                decision.model,
                is_shared=decision.memory is not None,
            )
            return accepted(decision, visit.clock, warnings)
        return self._refusal(visit, form_request, form_request.request, decision)

    def _refusal(
        self, visit: Visit, form_request: FormRequest, booking_request: BookingRequest, decision: Decision
    ) -> FormAnswer:
        """Everything that is wrong, the earliest slots of that size, and the alternatives."""
        slots = self._earliest(visit, form_request, booking_request, decision)
        buttons = fillers(
            [
                *((slot, "") for slot in slots),
                *((other, WHY.get(other.why, "")) for other in decision.alternatives),
            ],
            visit.clock,
            namespace=booking_request.namespace,
            user=form_request.user or "",
        )
        answer = refused(decision.violations, visit.clock, buttons)
        if buttons:
            return answer
        start = decision.earliest_start
        is_said = start is not None and visit.clock.moment(start) in answer.message
        later = "" if is_said else later_of(start, visit.clock)
        return replace(answer, later=nothing_now(later, can_wait=is_said) if decision.is_searched else later)

    def _earliest(
        self, visit: Visit, form_request: FormRequest, booking_request: BookingRequest, decision: Decision
    ) -> Sequence[Slot]:
        """The first slots for as much of the request as the limits allow; none if no start would help.

        At or after the requested start; if there are too few, from now on.
        """
        like = next((each for each in decision.alternatives if each.why in _AS_MUCH), None)
        if like is None:
            return ()
        slot = SlotRequest(
            model=like.model,
            duration=durations.between(like.start, like.end, visit.clock.zone),
            count=like.count,
            memory=like.memory,
            topology=like.topology,
            namespace=booking_request.namespace,
        )
        found: list[Slot] = []
        for not_before in (None,) if like.why == "earlier" else dict.fromkeys((booking_request.start, None)):
            if len(found) < _SLOTS:
                soonest = msgspec.structs.replace(slot, not_before=not_before)
                with suppress(RefusedError):  # taken by another user since
                    found += self._parts.bookings.earliest(visit.who, soonest, user=form_request.user)
        return [*dict.fromkeys(found)][:_SLOTS]


def _range(visit: Visit) -> CalendarRange:
    try:
        first = visit.clock.read(request.args.get("from", ""))
    except BadTimeError:
        first = None
    return CalendarRange.of(visit.clock, first)


def _known(capacity: Capacity, model: str) -> str:
    label = names.model_label(model)
    if label not in capacity.devices:
        raise ProblemError(UNKNOWN, f"No node has GPUs of model {wording.quoted(model)}.")
    return label


def _see_other(address: str) -> Response:
    return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address})
