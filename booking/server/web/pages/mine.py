"""*My bookings*: the user's bookings, their remaining time, and the possible actions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import quote, urlencode

from flask import Response, request
from msgspec import UNSET

from booking import durations
from booking.eviction import end_effects
from booking.server.errors import RefusedError, StaleError
from booking.server.evaluation.evaluate import Decision
from booking.server.records import BookingChange, Record
from booking.server.store_records import Filters
from booking.server.web.pages.booking_form import NO_COUNT, whole
from booking.server.web.pages.cards import Act, Card, card_of, past_of
from booking.server.web.pages.form_result import UNWRITTEN, FormAnswer, accepted, decisive, gpus, later_of
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.layout import PageLayout, Visit, is_fragment, page_mark, same_page
from booking.server.web.pages.risks import Risk, alternative_texts, risk_of, taken
from booking.server.web.pages.site_clock import BadTimeError
from cluster import names

ChangeVerb = Literal["length", "move", "resize", "take"]
_INSTEAD: Final = "instead"
"""Query parameter: the booking at risk for which alternatives are shown."""
_PAGE: Final = 50
_MOST: Final = 200
"""Running and planned bookings of a page; rules allow a handful."""
_LONGEST_NUMBER: Final = 18
"""Digits of a number at most."""


@dataclass(frozen=True)
class Notice:
    """A message about the result of the last form."""

    verdict: str
    message: str


class MinePages:
    """The page ``/mine`` and its forms."""

    def __init__(self, parts: PageParts, frame: PageLayout) -> None:
        self._parts = parts
        self._frame = frame

    # --- addresses -----------------------------------------------------------------------------------
    def show(self) -> Response:
        """``GET /mine``; with ``past=1`` the past bookings."""
        visit = self._frame.visit()
        if request.args.get("past"):
            return self._past(visit)
        return self._page(visit, notice=self._notice(visit), searched=request.args.get(_INSTEAD, ""))

    def instead(self, booking_id: str) -> Response:
        """``GET /mine/ID/instead``: what could be had instead of a booking at risk. The search is slow."""
        if not is_fragment():
            query = urlencode({_INSTEAD: booking_id})
            return Response(
                status=HTTPStatus.SEE_OTHER, headers={"Location": f"/mine?{query}#{quote(booking_id)}"}
            )
        visit = self._frame.visit()
        record = self._parts.bookings.show(visit.who, booking_id)
        risk = self._risks(visit, [record], searched=booking_id).get(booking_id)
        return self._frame.page(
            "instead.html", visit, id=booking_id, version=record.version, instead=risk and risk.instead
        )

    def check(self, booking_id: str, verb: ChangeVerb) -> Response:
        """``POST /mine/ID/VERB/check``: the answer that a change would get."""
        visit = self._frame.visit()
        answer = self._dry_run(visit, booking_id, verb)
        if is_fragment():
            return self._frame.page("answer.html", visit, answer=answer)
        return self._page(visit, at=(booking_id, verb, answer))

    def change(self, booking_id: str, verb: ChangeVerb) -> Response:
        """``POST /mine/ID/VERB``: extend or shorten (``length``), ``move``, ``resize``, ``take`` an offer."""
        visit = self._frame.visit()
        change = self._change(visit, booking_id, verb)
        if isinstance(change, FormAnswer):
            return self._refused(visit, booking_id, verb, change)
        self._parts.guarantee.demand()
        self._parts.guarantee.require_capacity()
        try:
            record = self._parts.bookings.change(visit.who, booking_id, change, expected=_version())
        except RefusedError:
            return self._refused(visit, booking_id, verb, self._dry_run(visit, booking_id, verb))
        except StaleError as error:
            return self._refused(visit, booking_id, verb, FormAnswer("bad", str(error)))
        return self._done("released" if record.released else "changed", record)

    def release(self, booking_id: str) -> Response:
        """``POST /mine/ID/release``."""
        return self._end(booking_id, "release")

    def cancel(self, booking_id: str) -> Response:
        """``POST /mine/ID/cancel``."""
        return self._end(booking_id, "cancel")

    # --- helpers -------------------------------------------------------------------------------------
    def _end(self, booking_id: str, verb: Literal["release", "cancel"]) -> Response:
        visit = self._frame.visit()
        self._parts.guarantee.demand()
        bookings = self._parts.bookings
        end = bookings.release if verb == "release" else bookings.cancel
        try:
            record = end(visit.who, booking_id, expected=_version())
        except (RefusedError, StaleError) as error:
            return self._refused(
                visit, booking_id, verb, FormAnswer("bad", visit.clock.localized(str(error)))
            )
        return self._done("released" if verb == "release" else "cancelled", record)

    def _done(self, what: str, record: Record) -> Response:
        is_written = self._parts.guarantee.written(record)
        query = same_page(**{what if is_written else "stored": record.id})
        anchor = "" if what in {"released", "cancelled"} else f"#{record.id}"
        return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": f"/mine{query}{anchor}"})

    def _refused(self, visit: Visit, booking_id: str, verb: str, answer: FormAnswer) -> Response:
        """The page again with the refusal; a booking that the user may not see is reported as unknown."""
        self._parts.bookings.show(visit.who, booking_id)
        return self._page(visit, at=(booking_id, verb, answer), status=HTTPStatus.UNPROCESSABLE_ENTITY)

    def _change(self, visit: Visit, booking_id: str, verb: ChangeVerb) -> BookingChange | FormAnswer:
        """The change that the form requests; a message if it cannot be parsed."""
        if verb == "take":
            return taken(*(request.form.get(name, "") for name in ("start", "end", "count")))
        if verb == "resize":
            count = whole(request.form.get("count", ""))
            return BookingChange(count=count) if count else FormAnswer("bad", NO_COUNT)
        try:
            instant = visit.clock.read(request.form.get("end" if verb == "length" else "start", ""))
        except BadTimeError as error:
            return FormAnswer("bad", str(error))
        if verb == "length":
            return BookingChange(end=instant)
        record = self._parts.bookings.show(visit.who, booking_id)
        zone = visit.clock.zone
        # As many days as before, even if clocks change in between.
        length = durations.between(record.start, record.end, zone)
        return BookingChange(start=instant, end=durations.after(instant, length, zone))

    def _dry_run(self, visit: Visit, booking_id: str, verb: ChangeVerb) -> FormAnswer:
        change = self._change(visit, booking_id, verb)
        if isinstance(change, FormAnswer):
            return change
        problem = self._parts.unknown_capacity()
        if problem:
            return FormAnswer("bad", f"No answer is possible now. {problem}")
        try:
            decision = self._parts.bookings.dry_run_change(visit.who, booking_id, change)
        except RefusedError as error:
            return FormAnswer("bad", visit.clock.localized(str(error)))
        if decision.is_accepted:
            ends_it = change.end is not UNSET and change.end <= visit.clock.now
            if ends_it:
                return _possible(decision, visit, end_effects.before(self._parts.terms))
            user = self._parts.bookings.show(visit.who, booking_id).user
            warnings = self._parts.live.quota_warnings(
                user,
                decision.namespace,
                decision.count,
                decision.model,
                is_shared=decision.memory is not None,
            )
            return replace(_possible(decision, visit, ""), warnings=tuple(warnings))
        return _impossible(decision, visit)

    def _page(
        self,
        visit: Visit,
        *,
        at: tuple[str, str, FormAnswer] | None = None,
        notice: Notice | None = None,
        status: HTTPStatus = HTTPStatus.OK,
        searched: str = "",
    ) -> Response:
        page = self._parts.bookings.list(
            visit.who,
            Filters(user=visit.who.user, past=False),
            after=page_mark(),
            limit=_MOST,
        )
        pods = self._parts.pods_of()
        risks = self._risks(visit, page.entries, searched=searched)
        cards = [self._card(visit, record, pods, risks=risks, at=at) for record in page.entries]
        if at and not any(act.answer for card in cards for act in card.acts):
            # Its card has disappeared, or changed, since the form was shown.
            notice = Notice("bad", " ".join([at[2].message, *at[2].violations]))
        following = f"/mine?{urlencode({'continue': page.following})}" if page.following else None
        return self._frame.page(
            "mine.html", visit, status=status, cards=cards, following=following, notice=notice, past=False
        )

    def _risks(self, visit: Visit, records: Sequence[Record], *, searched: str) -> Mapping[str, Risk]:
        """Id -> why, of the bookings that cannot be kept; empty while the capacity is not known.

        Alternatives are searched for one of them only.
        """
        if self._parts.unknown_capacity():
            return {}
        found = self._parts.bookings.at_risk(records)
        blocks = self._parts.bookings.blocks(visit.who) if found else ()
        return {
            each.id: risk_of(
                each,
                blocks,
                self._parts.bookings.alternatives(visit.who, each.id) if each.id == searched else None,
                visit.clock,
            )
            for each in records
            if each.id in found
        }

    def _card(
        self,
        visit: Visit,
        record: Record,
        pods: Mapping[str, tuple[str, ...]] | None,
        *,
        risks: Mapping[str, Risk],
        at: tuple[str, str, FormAnswer] | None,
    ) -> Card:
        card = card_of(
            record,
            visit.clock,
            pods=None if pods is None else pods.get(record.id, ()),
            risk=risks.get(record.id),
            terms=self._parts.terms,
            resource=self._parts.resources().get(record.model, names.GPU_RESOURCE),
        )
        if at is None or at[0] != record.id:
            return card
        return replace(card, acts=tuple(_opened(act, at[1], at[2]) for act in card.acts))

    def _past(self, visit: Visit) -> Response:
        skipped = _number(request.args.get("skip", ""))
        over = [record for record in self._all(visit) if _is_over(record, visit.clock.now)]
        newest = sorted(over, key=lambda record: record.start, reverse=True)
        rows = [past_of(record, visit.clock) for record in newest[skipped : skipped + _PAGE]]
        more = len(newest) > skipped + _PAGE
        following = f"/mine?{urlencode({'past': 1, 'skip': skipped + _PAGE})}" if more else None
        return self._frame.page("mine.html", visit, rows=rows, following=following, notice=None, past=True)

    def _all(self, visit: Visit) -> Iterator[Record]:
        """All bookings of a user. Rules limit them to a few dozen a year."""
        after = None
        while True:
            page = self._parts.bookings.list(
                visit.who, Filters(user=visit.who.user, past=True), after=after, limit=_MOST
            )
            yield from page.entries
            after = page.following
            if after is None:
                return

    def _notice(self, visit: Visit) -> Notice | None:
        for what, message in _NOTICES.items():
            booking_id = request.args.get(what)
            if booking_id:
                record = self._parts.bookings.show(visit.who, booking_id)
                verdict = "bad" if what == "stored" else "good"
                text = message.format(gpus(record.count, record.model, record.memory), record.id)
                if what == "released":
                    text = f"{text} {end_effects.after(self._parts.terms)}"
                if what in {"booked", "changed"}:
                    warnings = self._parts.live.quota_warnings(
                        record.user,
                        record.namespace,
                        record.count,
                        record.model,
                        is_shared=record.memory is not None,
                    )
                    text = " ".join((text, *warnings))
                return Notice(verdict, text)
        return None


_NOTICES: Final = {
    "booked": "Booked: {} ({}). It is guaranteed from now on.",
    "changed": "Changed: {} ({}).",
    "released": "Given back: {} ({}).",
    "cancelled": "Cancelled: {} ({}).",
    "stored": f"{{}} ({{}}) {UNWRITTEN}",
}
"""Query parameter -> message about the booking that it names."""


def _opened(act: Act, verb: str, answer: FormAnswer) -> Act:
    if act.verb != verb:
        return act
    value = request.form.get(act.field, "") if act.field else act.value
    return replace(act, is_open=True, answer=answer, value=value or act.value)


def _possible(decision: Decision, visit: Visit, of_pods: str) -> FormAnswer:
    answer = accepted(decision, visit.clock)
    message = answer.message.replace("Can be booked", "Possible", 1)
    return replace(answer, message=f"{message} {of_pods}".rstrip())


def _impossible(decision: Decision, visit: Visit) -> FormAnswer:
    """The answer that the change is impossible; all messages go next to the only field."""
    instead = "; ".join(alternative_texts(decision.alternatives, visit.clock))
    message, *more = (visit.clock.localized(each.message) for each in decisive(decision.violations))
    start = decision.earliest_start
    is_said = bool(instead) or (start is not None and visit.clock.moment(start) in message)
    return FormAnswer(
        "bad",
        f"{message} It could become: {instead}." if instead else message,
        tuple(more),
        later="" if is_said else later_of(start, visit.clock),
    )


def _is_over(record: Record, now: datetime) -> bool:
    return record.state(now) in {"ended", "cancelled"}


def _version() -> str | None:
    """The version of the booking that the form was shown with."""
    return request.form.get("version") or None


def _number(text: str) -> int:
    """A whole number; 0 if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else 0
