"""Cases asked of a policy: what evaluation answers, beside what was expected. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from booking import spans, wording
from booking.capacity import Capacity
from booking.cases.file import Asked, Booked, CaseFile, CaseFileError, OneCase
from booking.evaluate import Decision, evaluate
from booking.policy.limits import Limits
from booking.policy.policy import Policy, read_exemption
from booking.policy.values import ValueMistakeError
from booking.promises.calendars import calendar_of
from booking.promises.room import Rooms
from booking.records import BookingRequest, Record
from booking.room import Wanted
from booking.spans import SpanError
from cluster import names
from cluster.objects.bookings import Topology


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a case."""

    name: str
    expected: tuple[str, ...]
    """Rules, sorted; none: accepted."""
    broken: tuple[str, ...]
    """Rules that really are broken, sorted."""
    differs: str | None = None
    """A sentence, where the answer is not the expected one."""
    sentences: tuple[str, ...] = ()
    """What the user would read."""


@dataclass(frozen=True, slots=True)
class _Exemption:
    limits: dict[str, object]
    model: str | None
    start: datetime
    end: datetime


def replay(file: CaseFile, policy: Policy) -> tuple[Outcome, ...]:
    """Every case's outcome, in order.

    Raises:
        CaseFileError: a case makes no sense: more is booked than there is, an unknown booking is changed.
    """
    capacity = Capacity({names.model_label(model): dict(nodes) for model, nodes in file.capacity.items()})
    return tuple(_replayed(case, file, policy, capacity) for case in file.cases)


def _replayed(case: OneCase, file: CaseFile, policy: Policy, capacity: Capacity) -> Outcome:
    try:
        return _outcome(case, _decided(case, file, policy, capacity))
    except OverflowError as error:
        raise CaseFileError(f"{_of(case)}: an instant of it is beyond the calendar.") from error


def _decided(case: OneCase, file: CaseFile, policy: Policy, capacity: Capacity) -> Decision:
    now = case.now.astimezone(UTC).replace(microsecond=0)
    records = _placed(case, [*file.history, *case.history], capacity, now)
    changing = next((record for record in records if record.id == case.change), None)
    if case.change is not None and changing is None:
        raise CaseFileError(f"{_of(case)}: there is no booking {wording.quoted(case.change)} to change.")
    limits_for = _limits_for(case, policy, now)
    try:
        request = _request(case.request, changing, capacity, now=now, limits_for=limits_for)
    except (SpanError, CaseFileError) as error:
        raise CaseFileError(f"{_of(case)}: {error}") from error
    return evaluate(
        now,
        limits_for,
        history=[record for record in records if record.user == case.user],
        room_for=_rooms(records, capacity, now, changing),
        capacity=capacity,
        request=request,
        changing=changing,
    )


def _outcome(case: OneCase, decision: Decision) -> Outcome:
    expected = tuple(sorted(case.expect))
    broken = tuple(sorted({violation.rule for violation in decision.violations}))
    differs = None
    if set(expected) != set(broken):
        differs = f"{_told(expected)} was expected, and it is {_told(broken)}."
    elif case.earliest_start is not None and decision.earliest_start != case.earliest_start:
        found = decision.earliest_start
        differs = (
            f"The earliest start was expected at {wording.instant(case.earliest_start)}, "
            f"and it is {wording.instant(found) if found else 'never'}."
        )
    sentences = tuple(violation.message for violation in decision.violations)
    return Outcome(name=case.name, expected=expected, broken=broken, differs=differs, sentences=sentences)


def _told(rules: Iterable[str]) -> str:
    return wording.listed(rules) or "accepted"


def _of(case: OneCase) -> str:
    return f"The case {wording.quoted(case.name)}"


def _limits_for(case: OneCase, policy: Policy, now: datetime) -> Callable[[str], Limits]:
    for each in case.exemptions:
        try:
            read_exemption(each.limits)
        except ValueMistakeError as error:
            raise CaseFileError(f"{_of(case)}: {error}") from error
    exemptions = [
        _Exemption(
            dict(each.limits), each.model and names.model_label(each.model), now, now + timedelta(days=1)
        )
        for each in case.exemptions
    ]
    return lambda model: policy.limits_for(
        user=case.user, groups=case.groups, model=model, now=now, exemptions=exemptions
    )


def _placed(case: OneCase, booked: Sequence[Booked], capacity: Capacity, now: datetime) -> list[Record]:
    """The bookings that are there, each with a place, as they would have been stored one after the other."""
    records: list[Record] = []
    for record in _records(case, booked, capacity):
        rooms = _rooms(records, capacity, now, None)
        lives = record.cancelled is None and record.end > now
        want = Wanted(count=record.count, topology=record.topology)
        placing = rooms(record.model).place(want, max(record.start, now), record.end) if lives else None
        if lives and placing is None:
            raise CaseFileError(
                f"{_of(case)}: the booking {record.id} of {record.user} does not fit beside those before it."
            )
        moved = placing.moved if placing else {}
        records = [msgspec.structs.replace(each, plan=moved.get(each.id, each.plan)) for each in records]
        records.append(msgspec.structs.replace(record, plan=placing.plan if placing else ()))
    return records


def _records(case: OneCase, booked: Sequence[Booked], capacity: Capacity) -> Iterator[Record]:
    for number, each in enumerate(booked, start=1):
        if (each.released or each.end) <= each.start or each.end <= each.start or each.count < 1:
            raise CaseFileError(f"{_of(case)}: booking {number} is of nothing.")
        yield Record(
            id=each.id or f"b-{number}",
            user=each.user,
            model=_model(each.model, capacity),
            count=each.count,
            topology=_topology(each.topology, each.count),
            namespace=None,
            start=each.start.astimezone(UTC),
            end=(each.released or each.end).astimezone(UTC),
            created=each.start.astimezone(UTC),
            released=each.released,
            cancelled=each.cancelled,
            waived=each.waived,
        )


def _rooms(records: Sequence[Record], capacity: Capacity, now: datetime, changing: Record | None) -> Rooms:
    return Rooms(
        capacity=capacity,
        now=now,
        calendar_of=lambda model: calendar_of(r for r in records if r.model == model and r.end > now),
        changing=changing,
    )


def _request(
    asked: Asked,
    changing: Record | None,
    capacity: Capacity,
    *,
    now: datetime,
    limits_for: Callable[[str], Limits],
) -> BookingRequest:
    """What is asked for, as the web would hand it on."""
    model = changing.model if changing else _model(asked.model, capacity)
    start = asked.start or (changing.start if changing else now)
    end = asked.end or (changing.end if changing else None)
    if asked.duration is not None:
        end = spans.after(start, spans.read(asked.duration), limits_for(model).tz)
    if end is None:
        raise CaseFileError("the request has neither an end nor a duration.")
    count = asked.count if asked.count is not None else (changing.count if changing else 1)
    topology = asked.topology or (changing.topology if changing else None)
    return BookingRequest(
        model=model, start=start, end=end, count=count, topology=topology, namespace=asked.namespace
    )


def _model(said: str, capacity: Capacity) -> str:
    """The model that is meant: the only one, where none is said."""
    if not said and len(capacity.models) != 1:
        raise CaseFileError("there are several models: say which one.")
    return names.model_label(said) if said else capacity.models[0]


def _topology(said: Topology | None, count: int) -> Topology:
    return said or ("single-node" if count > 1 else "any")
