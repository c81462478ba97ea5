"""Replays cases against a policy: the evaluation's answer next to the expected one. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from booking import durations, wording
from booking.durations import DurationError
from booking.policy.limits import Limits
from booking.policy.policy import Policy, read_exemption
from booking.policy.values import ValueMistakeError
from booking.server.availability.calendars import Calendar, calendar_of
from booking.server.availability.planned_capacity import PlannedCapacities
from booking.server.availability.replan import replanned
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import CapacityRequest
from booking.server.cases.file import (
    Booked,
    CaseFile,
    CaseFileError,
    CaseRequest,
    Exempted,
    Maintained,
    OneCase,
)
from booking.server.evaluation.evaluate import Decision, evaluate
from booking.server.records import BookingRequest, Record
from booking.server.store_records import Block
from cluster import names
from cluster.objects.bookings import Topology


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a case."""

    name: str
    expected: tuple[str, ...]
    """Rules, sorted; none: accepted."""
    broken: tuple[str, ...]
    """Rules that are actually broken, sorted."""
    differs: str | None = None
    """A message if the answer is not the expected one."""
    messages: tuple[str, ...] = ()
    """What the user would read."""


@dataclass(frozen=True, slots=True)
class _Exemption:
    limits: dict[str, object]
    model: str | None
    start: datetime
    end: datetime


def replay(file: CaseFile, policy: Policy) -> tuple[Outcome, ...]:
    """The outcome of every case, in order.

    Raises:
        CaseFileError: a case makes no sense: more is booked than exists, an unknown booking is changed.
    """
    capacity = Capacity(
        {names.model_label(model): dict(nodes) for model, nodes in file.capacity.items()},
        memories={names.model_label(model): memory for model, memory in file.memory.items()},
    )
    return tuple(_replayed(case, file, policy, capacity) for case in file.cases)


def _replayed(case: OneCase, file: CaseFile, policy: Policy, capacity: Capacity) -> Outcome:
    name = f"The case {wording.quoted(case.name)}"
    try:
        return _outcome(case, _decided(case, file, policy, capacity))
    except (CaseFileError, DurationError) as error:
        raise CaseFileError(f"{name}: {error}") from error
    except OverflowError as error:
        raise CaseFileError(f"{name}: an instant of it is beyond the calendar.") from error


def _decided(case: OneCase, file: CaseFile, policy: Policy, capacity: Capacity) -> Decision:
    now = _whole(case.now)
    blocks = tuple(_blocks([*file.maintenance, *case.maintenance], capacity))
    placed = _placed([*file.history, *case.history], capacity, now)
    records = _kept(placed, capacity, now, blocks)
    changing = next((record for record in records if record.id == case.change), None)
    if case.change is not None and changing is None:
        there = wording.listed(record.id for record in records) or "none"
        raise CaseFileError(
            f"there is no booking {wording.quoted(case.change)} to change: there are {there}."
        )
    limits_for = _limits_for(case, policy, now)
    request = _request(case.request, changing, capacity, now=now, limits_for=limits_for)
    return evaluate(
        now,
        limits_for,
        history=[record for record in records if record.user == case.user],
        free_capacity_for=_free_capacities(records, capacity, now, blocks=blocks, changing=changing),
        capacity=capacity,
        request=request,
        changing=changing,
    )


def _outcome(case: OneCase, decision: Decision) -> Outcome:
    expected = tuple(sorted(case.expect))
    broken = tuple(sorted({violation.rule for violation in decision.violations}))
    differs = None
    if set(expected) != set(broken):
        differs = f"It should be {_outcome_text(expected)}, and it is {_outcome_text(broken)}."
    elif case.earliest_start is not None and decision.earliest_start != case.earliest_start:
        found = decision.earliest_start
        differs = (
            f"The earliest start should be {wording.instant(case.earliest_start)}, "
            f"and it is {wording.instant(found) if found else 'never'}."
        )
    messages = tuple(violation.message for violation in decision.violations)
    return Outcome(name=case.name, expected=expected, broken=broken, differs=differs, messages=messages)


def _outcome_text(rules: Iterable[str]) -> str:
    text = wording.listed(rules)
    return f"refused by {text}" if text else "accepted"


def _limits_for(case: OneCase, policy: Policy, now: datetime) -> Callable[[str], Limits]:
    exemptions = [_exemption(each, number, now) for number, each in enumerate(case.exemptions, start=1)]
    return lambda model: policy.limits_for(
        user=case.user, groups=case.groups, model=model, now=now, exemptions=exemptions
    )


def _exemption(each: Exempted, number: int, now: datetime) -> _Exemption:
    try:
        read_exemption(each.limits)
    except ValueMistakeError as error:
        raise CaseFileError(f"exemption {number}: {error}") from error
    start = now if each.start is None else _whole(each.start)
    end = max(start, now) + timedelta(days=1) if each.end is None else _whole(each.end)
    if end <= start:
        hint = "write when it starts, too" if each.start is None else "write a later end"
        raise CaseFileError(f"exemption {number} {_backwards(start, end)}: {hint}.")
    return _Exemption(dict(each.limits), each.model and names.model_label(each.model), start, end)


def _blocks(maintenance: Sequence[Maintained], capacity: Capacity) -> Iterator[Block]:
    for number, each in enumerate(maintenance, start=1):
        model = None if each.model is None else names.model_label(each.model)
        start, end = _whole(each.start), _whole(each.end)
        if end <= start:
            raise CaseFileError(f"maintenance {number} {_backwards(start, end)}: write a later end.")
        if each.count is not None and each.count < 1:
            raise CaseFileError(
                f"maintenance {number} is of no GPU: write a count of at least 1, or none for all of them."
            )
        known = {
            node
            for name, nodes in capacity.devices.items()
            for node in nodes
            if model is None or name == model
        }
        if each.node not in known:
            of_model = "" if model is None else f" with GPUs of model {wording.quoted(model)}"
            raise CaseFileError(
                f"maintenance {number} is of {wording.quoted(each.node)}, which is not a node{of_model} of"
                f" the file's capacity: there are {wording.listed(sorted(known)) or 'none'}."
            )
        yield Block(
            id=f"m-{number}",
            node=each.node,
            model=model,
            count=each.count,
            start=start,
            end=end,
            reason="",
            created_by="",
            created=start,
        )


def _placed(booked: Sequence[Booked], capacity: Capacity, now: datetime) -> list[Record]:
    """The existing bookings, each with a place, as if they had been made one after the other.

    Maintenance does not block them here: it may have been planned after all of them.
    """
    records: list[Record] = []
    for record in _records(booked, capacity):
        free_capacities = _free_capacities(records, capacity, now)
        lives = record.cancelled is None and record.end > now
        want = CapacityRequest(count=record.count, topology=record.topology, memory=record.memory)
        placing = (
            free_capacities(record.model).place(want, max(record.start, now), record.end) if lives else None
        )
        if lives and placing is None:
            raise CaseFileError(
                f"the booking {record.id} of {record.user} does not fit next to those before it: "
                "take it out, or add to the capacity."
            )
        moved = placing.moved if placing else {}
        records = [msgspec.structs.replace(each, plan=moved.get(each.id, each.plan)) for each in records]
        records.append(msgspec.structs.replace(record, plan=placing.plan if placing else ()))
    return records


def _kept(
    records: list[Record], capacity: Capacity, now: datetime, blocks: Sequence[Block]
) -> Sequence[Record]:
    """The bookings as the server would keep them under maintenance: moved, or at risk where they are."""
    if not blocks:
        return records
    plans = {
        key: plan
        for model in capacity.models
        for key, plan in replanned(
            model, _calendar(records, model, now), capacity, now, blocks=blocks
        ).plans.items()
    }
    return [msgspec.structs.replace(record, plan=plans.get(record.id, record.plan)) for record in records]


def _records(booked: Sequence[Booked], capacity: Capacity) -> Iterator[Record]:
    taken: set[str] = set()
    for number, each in enumerate(booked, start=1):
        key = each.id or f"b-{number}"
        if key in taken:
            raise CaseFileError(
                f"booking {number} has the id {wording.quoted(key)} of one before it: give it one of its own."
            )
        taken.add(key)
        if (each.released or each.end) <= each.start or each.end <= each.start or each.count < 1:
            raise CaseFileError(
                f"booking {number} is of nothing: it must be of at least 1 GPU, and end after its start."
            )
        yield Record(
            id=key,
            user=each.user,
            model=_model(each.model, capacity),
            count=each.count,
            memory=each.memory,
            topology=_topology(each.topology, each.count),
            namespace=None,
            start=each.start.astimezone(UTC),
            end=(each.released or each.end).astimezone(UTC),
            created=each.start.astimezone(UTC),
            released=each.released,
            cancelled=each.cancelled,
            waived=each.waived,
        )


def _free_capacities(
    records: Sequence[Record],
    capacity: Capacity,
    now: datetime,
    *,
    blocks: Sequence[Block] = (),
    changing: Record | None = None,
) -> PlannedCapacities:
    return PlannedCapacities(
        capacity=capacity,
        now=now,
        calendar_of=lambda model: _calendar(records, model, now),
        blocks=blocks,
        changing=changing,
    )


def _calendar(records: Sequence[Record], model: str, now: datetime) -> Calendar:
    return calendar_of(record for record in records if record.model == model and record.end > now)


def _request(
    request: CaseRequest,
    changing: Record | None,
    capacity: Capacity,
    *,
    now: datetime,
    limits_for: Callable[[str], Limits],
) -> BookingRequest:
    """The request as the web layer would pass it on."""
    model = changing.model if changing else _model(request.model, capacity)
    start = request.start or (changing.start if changing else now)
    end = request.end or (changing.end if changing else None)
    if request.duration is not None:
        end = durations.after(start, durations.read(request.duration), limits_for(model).tz)
    if end is None:
        raise CaseFileError("the request has neither an end nor a duration: write one of them.")
    count = request.count if request.count is not None else (changing.count if changing else 1)
    topology = request.topology or (changing.topology if changing else None)
    return BookingRequest(
        model=model,
        start=start,
        end=end,
        count=count,
        memory=request.memory or (changing.memory if changing else None),
        topology=topology,
        namespace=request.namespace,
    )


def _model(model: str, capacity: Capacity) -> str:
    """The label form of a model; the only existing model if none is given."""
    if model:
        return names.model_label(model)
    if not capacity.models:
        raise CaseFileError("the file's capacity names no model: write one with its nodes.")
    if len(capacity.models) > 1:
        raise CaseFileError(
            f"there are several models: say which one is meant, of {wording.listed(capacity.models)}."
        )
    return capacity.models[0]


def _topology(topology: Topology | None, count: int) -> Topology:
    return topology or ("single-node" if count > 1 else "any")


def _whole(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def _backwards(start: datetime, end: datetime) -> str:
    return f"ends at {wording.instant(end)}, which is not after its start {wording.instant(start)}"
