"""Maps bodies to requests to the service, and its refusals to the fields that they are about. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Final

from booking import durations, wording
from booking.server.evaluation.alternatives import Alternative
from booking.server.records import BookingRequest, Violation
from booking.server.web.problems import REFUSED, Kind, ProblemError, ProblemViolation, offer, violation_answer
from booking.server.web.rest.parsing import Read
from booking.server.web.rest.requests import BookingBody

LENGTH: Final = "length"
"""The value of ``end`` or ``duration``, together with ``start``."""
_ANY_LENGTH: Final = timedelta(days=1)

_ABOUT: Final[dict[str, tuple[str | None, frozenset[str]]]] = {
    "unknown-model": ("model", frozenset({"model"})),
    "count-below-one": ("count", frozenset({"count"})),
    "more-than-exist": ("count", frozenset({"model", "count"})),
    "more-than-one-node-has": ("count", frozenset({"model", "count", "topology"})),
    "memory-below-one": ("memory", frozenset({"memory"})),
    "not-shared": ("memory", frozenset({"model", "memory"})),
    "more-memory-than-a-gpu-has": ("memory", frozenset({"model", "memory"})),
    "another-kind": ("memory", frozenset({"memory"})),
    "not-a-namespace": ("namespace", frozenset({"namespace"})),
    "starts-in-the-past": ("start", frozenset({"start"})),
    "ends-before-it-starts": ("end", frozenset({"start", LENGTH})),
    "too-far-ahead": ("end", frozenset({"start", LENGTH})),
    "no-active-overlap": (None, frozenset()),
    "one-planned": (None, frozenset()),
    "cooldown": ("start", frozenset({"start"})),
    "shortest": ("end", frozenset({LENGTH})),
    "longest": ("end", frozenset({LENGTH})),
    "capacity": (None, frozenset({"model", "count", "memory", "start", LENGTH})),
}
"""Rule -> the field that it is about, and all fields that its verdict depends on (without an entry: on
all)."""


@dataclass(frozen=True)
class SlotLike:
    """The booking request of a body.

    Values that cannot be parsed are replaced by harmless ones, so that the rules can still check the rest;
    ``unread`` shows which of their verdicts are then meaningless.
    """

    request: BookingRequest
    complaints: tuple[ProblemViolation, ...]
    """Everything that cannot be used; empty when the request is what was meant."""
    unread: frozenset[str]
    by_duration: bool
    """Whether the length was given as ``duration``."""
    problem: Kind
    """The kind of problem if there are complaints."""

    def refused(
        self,
        violations: Sequence[Violation],
        earliest_start: datetime | None = None,
        alternatives: Sequence[Alternative] = (),
    ) -> ProblemError:
        """The complaints, and those violations that depend on nothing unread, with their fields."""
        certain = [
            violation_answer(violation, self._field(violation.rule))
            for violation in violations
            if not self.unread & _ABOUT.get(violation.rule, (None, self.unread))[1]
        ]
        everything = (*self.complaints, *certain)
        return ProblemError(
            self.problem if self.complaints else REFUSED,
            " ".join(each.message for each in everything),
            violations=everything,
            earliest_start=None if self.complaints else earliest_start,
            alternatives=() if self.complaints else [offer(each) for each in alternatives],
        )

    def _field(self, rule: str) -> str | None:
        about = _ABOUT.get(rule, (None, frozenset()))[0]
        return "duration" if about == "end" and self.by_duration else about


def booking_request_of(body: Read[BookingBody], now: datetime, zone: tzinfo) -> SlotLike:
    """The request in a body.

    Args:
        body: the parsed body.
        now: aware UTC; a duration without a start begins with it.
        zone: the site's, in which days are counted.
    """
    values = body.values
    span = _span(body, now.replace(microsecond=0), zone)
    wrong = span.wrong
    request = BookingRequest(
        model=values.get("model") or "",
        count=1 if values.get("count") is None else values["count"],
        memory=values.get("memory"),
        start=span.start,
        end=span.end,
        namespace=values.get("namespace"),
        topology=values.get("topology"),
    )
    return SlotLike(
        request=request,
        complaints=(*body.complaints, *wrong),
        unread=body.unread | span.unread,
        by_duration=values.get("duration") is not None,
        problem=body.problem if body.complaints else REFUSED,
    )


@dataclass(frozen=True)
class _Span:
    start: datetime | None
    end: datetime
    wrong: tuple[ProblemViolation, ...] = ()
    unread: frozenset[str] = frozenset()


def _span(body: Read[BookingBody], now: datetime, zone: tzinfo) -> _Span:
    """The requested end, by ``end`` or by ``duration``."""
    values = body.values
    begin: datetime = values.get("start") or now
    end, duration = values.get("end"), values.get("duration")
    given = {name for name in ("end", "duration") if values.get(name) is not None or name in body.unread}
    default = _Span(values.get("start"), _later(begin), unread=frozenset({LENGTH}))
    if given == {"end", "duration"}:
        return _lacking(
            default, "conflicting-fields", "duration", "cannot be combined with end: give one of them."
        )
    if not given:
        return _lacking(
            default, "missing-field", "end", 'or duration is missing: say until when ("duration": "P2D").'
        )
    if end is not None and "start" in body.unread:
        return _Span(None, end, _past(end, now), unread=frozenset({LENGTH}))
    if end is not None:
        return _Span(values.get("start"), end)
    if duration is None:
        return default
    # The start is given, too: "a day from now" is a day, though seconds pass until it is evaluated.
    return _Span(begin, durations.after(begin, durations.read(duration), zone))


def _past(end: datetime, now: datetime) -> tuple[ProblemViolation, ...]:
    """Where nobody can read the start: an end that no start makes right."""
    if end.utcoffset() is None or end > now:
        return ()
    message = f"It ends at {wording.instant(end)}, and it is {wording.instant(now)} already."
    return (
        ProblemViolation(
            rule="ends-in-the-past",
            message=message,
            limit=wording.iso(now),
            actual=wording.iso(end),
            field="end",
        ),
    )


def _lacking(span: _Span, rule: str, name: str, text: str) -> _Span:
    message = f"The field {name} {text}"
    return replace(span, wrong=(ProblemViolation(rule=rule, message=message, field=name),))


def _later(begin: datetime) -> datetime:
    try:
        return begin + _ANY_LENGTH
    except OverflowError:
        return begin
