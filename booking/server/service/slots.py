"""When so many GPUs are available for so long: the first starts that would be accepted now."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from booking import durations, wording
from booking.principals import Principal
from booking.server.capacity.free_capacity import FreeCapacity
from booking.server.errors import RefusedError
from booking.server.evaluation import request_validation, start_rules
from booking.server.evaluation.evaluate import Decision
from booking.server.records import BookingRequest, Slot, SlotRequest, Violation
from booking.server.rule_context import RuleContext
from booking.server.service.authorization import beneficiary
from booking.server.service.context import ServiceContext, whole
from booking.server.service.evaluation import EvaluationContext, granted, refusal
from booking.server.store import Reading
from cluster import names
from cluster.objects.bookings import Topology

MOST: Final = 10
"""Slots in one answer at most."""
_DAY: Final = timedelta(days=1)


def earliest(
    context: ServiceContext,
    who: Principal,
    booking_request: SlotRequest,
    *,
    user: str | None,
    most: int,
    despite_planned: bool = False,
) -> tuple[Slot, ...]:
    """The first slots, each on another day, or after the one before where that is shorter than a day.

    ``despite_planned``: those that could be booked if the user's planned bookings did not count.
    """
    evaluation = EvaluationContext.of(context, who, beneficiary(who, user, context.identity_rules))
    require_instants(booking_request)

    def answer(reading: Reading) -> tuple[Slot, ...] | RefusedError:
        try:
            return _answer(
                evaluation,
                reading,
                whole(context.clock.now()),
                booking_request,
                most=max(1, min(most, MOST)),
                despite_planned=despite_planned,
            )
        except RefusedError as refused:
            return refused

    return granted(context, context.store.read(answer), trial(evaluation, booking_request))


def trial(evaluation: EvaluationContext, booking_request: SlotRequest) -> Callable[[Reading], Decision]:
    """What asks how the first start would be judged now, with alternatives that end by the deadline."""

    def decide(reading: Reading) -> Decision:
        now = evaluation.context.clock.now()
        return evaluation.judged(
            reading,
            now,
            request_of(evaluation, reading, now, booking_request),
            deadline=booking_request.deadline,
        )

    return decide


def first(
    evaluation: EvaluationContext, reading: Reading, now: datetime, booking_request: SlotRequest
) -> Slot:
    """The first slot of all.

    Raises:
        RefusedError: there is none.
    """
    return _answer(evaluation, reading, whole(now), booking_request, most=1)[0]


def request_of(
    evaluation: EvaluationContext, reading: Reading, now: datetime, booking_request: SlotRequest
) -> BookingRequest:
    """The request with its earliest start: now, or ``not_before`` if that is later."""
    now = whole(now)
    start = max(now, whole((booking_request.not_before or now).astimezone(UTC)))
    zone = evaluation.limits_for(reading, now)(names.model_label(booking_request.model)).tz
    return as_request(booking_request, start, durations.after(start, booking_request.duration, zone))


@dataclass(frozen=True, slots=True)
class _Search:
    """Everything that determines a slot apart from its start."""

    case: RuleContext
    free_capacity: FreeCapacity
    topology: Topology
    namespace: str | None

    def slots(self, not_before: datetime) -> Iterator[Slot]:
        """All slots at or after an instant."""
        case, limits = self.case, self.case.limits
        want = start_rules.wanted(case, self.topology)
        while (start := start_rules.next_start(case, self.free_capacity, want, not_before)) is not None:
            end = start_rules.end_of(start, case.length, limits)
            yield Slot(
                model=case.model,
                count=case.count,
                memory=case.memory,
                topology=self.topology,
                namespace=self.namespace,
                start=start,
                end=end,
            )
            midnight = start.astimezone(limits.tz).replace(tzinfo=None, hour=0, minute=0, second=0)
            not_before = min(max(end, start + _SHORTEST_STEP), durations.resolved(midnight + _DAY, limits.tz))


_SHORTEST_STEP: Final = timedelta(minutes=1)


def _answer(
    evaluation: EvaluationContext,
    reading: Reading,
    now: datetime,
    booking_request: SlotRequest,
    *,
    most: int,
    despite_planned: bool = False,
) -> tuple[Slot, ...]:
    limits_for = evaluation.limits_for(reading, now)
    model = names.model_label(booking_request.model)
    request = request_of(evaluation, reading, now, booking_request)
    start = request.start or now
    decision, _ = evaluation.decided(reading, now, request)
    # A start off the grid or without room is no reason to refuse; a violation that no start can cure is.
    if any(violation.earliest_start is None for violation in decision.violations):
        raise refusal(decision)
    history = reading.history(evaluation.user)
    case = RuleContext(
        now=now,
        limits=limits_for(model),
        history=[each for each in history if not (despite_planned and each.state(now) == "planned")],
        model=model,
        count=booking_request.count,
        memory=booking_request.memory,
        memories=evaluation.capacity.memories,
        start=start,
        end=request.end,
        since=start,
    )
    free_capacity = evaluation.free_capacity_for(reading, now)(model)
    found = tuple(
        islice(_Search(case, free_capacity, decision.topology, booking_request.namespace).slots(start), most)
    )
    in_time = tuple(
        slot for slot in found if booking_request.deadline is None or slot.end <= booking_request.deadline
    )
    if not found:
        raise refusal(decision)
    if not in_time and booking_request.deadline is not None:
        raise _too_late(found[0], booking_request.deadline, decision)
    return in_time


def as_request(booking_request: SlotRequest, start: datetime, end: datetime) -> BookingRequest:
    """The request that books a slot."""
    return BookingRequest(
        model=booking_request.model,
        start=start,
        end=end,
        count=booking_request.count,
        memory=booking_request.memory,
        namespace=booking_request.namespace,
        topology=booking_request.topology,
    )


def require_instants(booking_request: SlotRequest) -> None:
    """Refuse instants that cannot be meant."""
    moments = {"earliest start": booking_request.not_before, "deadline": booking_request.deadline}
    wrong = [
        each
        for what, moment in moments.items()
        if moment is not None
        for each in request_validation.of_instant(what, moment)
    ]
    if wrong:
        raise RefusedError(wrong)


_OF_STEPS: Final = frozenset({"off-the-grid", "not-whole-steps"})
"""The search chooses the steps on which a slot begins and ends."""


def _too_late(first: Slot, deadline: datetime, soonest: Decision) -> RefusedError:
    """The violations of the earliest booking, and that the first slot ends too late."""
    violation = Violation(
        rule="after-the-deadline",
        message=f"The first such slot is from {wording.instant(first.start)} to "
        f"{wording.instant(first.end)}, which is after the deadline {wording.instant(deadline)}.",
        limit=wording.iso(deadline.astimezone(UTC)),
        actual=wording.iso(first.end),
    )
    causes = (each for each in soonest.violations if each.rule not in _OF_STEPS)
    return RefusedError([violation, *causes], first.start)
