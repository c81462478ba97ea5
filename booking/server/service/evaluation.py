"""The one evaluation of a request, shared by creation, change, dry run and slot search."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TypeVar

from booking.policy.policy import Policy
from booking.principals import Principal
from booking.server.availability.planned_capacity import PlannedCapacities
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError, StoreError, UnknownError
from booking.server.evaluation.alternatives import Alternative
from booking.server.evaluation.evaluate import Decision, LimitsFor, evaluate
from booking.server.records import BookingRequest, Record
from booking.server.service.context import ServiceContext, whole
from booking.server.store import Reading, Writing
from booking.server.store_records import Guard

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """A user, the policy and the capacity, read before a transaction locks out other writers."""

    context: ServiceContext
    who: Principal
    user: str
    """User id of the booking's owner, whose limits apply."""
    capacity: Capacity
    policy: Policy

    @classmethod
    def of(
        cls, context: ServiceContext, who: Principal, user: str, capacity: Capacity | None = None
    ) -> "EvaluationContext":
        """The context of a user's requests, even if another user sends them."""
        known = context.capacity() if capacity is None else capacity
        return cls(context, who, user, known, context.current_policy.policy())

    @property
    def version(self) -> str:
        """Version of the policy."""
        return self.context.current_policy.version(self.policy)

    def judged(
        self,
        reading: Reading,
        now: datetime,
        request: BookingRequest,
        *,
        changing: Record | None = None,
        deadline: datetime | None = None,
    ) -> Decision:
        """The record that would be stored, or all violations; a changed booking does not block itself.

        Its alternatives end by the deadline.
        """
        return evaluate(
            now,
            self.limits_for(reading, now),
            history=reading.history(self.user),
            free_capacity_for=self.free_capacity_for(reading, now, changing=changing),
            capacity=self.capacity,
            request=request,
            changing=changing,
            deadline=deadline,
        )

    def decided(
        self, reading: Reading, now: datetime, request: BookingRequest, *, changing: Record | None = None
    ) -> tuple[Decision, Guard]:
        """The decision without a search for alternatives, and the guard that the database checks itself."""
        limits_for = cache(self.limits_for(reading, now))
        decision = evaluate(
            now,
            limits_for,
            history=reading.history(self.user),
            free_capacity_for=self.free_capacity_for(reading, now, changing=changing),
            capacity=self.capacity,
            request=request,
            changing=changing,
            with_alternatives=False,
        )
        limits = limits_for(decision.model)
        guard = Guard(
            since=whole(now),
            # How many devices shares need is no sum that a database could make.
            devices=self.capacity.total(decision.model) if decision.memory is None else None,
            live=limits.max_live if limits.scope == "user" else None,
        )
        return decision, guard

    def trial(self, request: BookingRequest) -> Callable[[Reading], Decision]:
        """A function that evaluates a new booking now, with alternatives."""
        return lambda reading: self.judged(reading, self.context.clock.now(), request)

    def limits_for(self, reading: Reading, now: datetime) -> LimitsFor:
        """Model -> the user's limits now."""
        # Of other users only the groups that the policy lists are known.
        groups = self.who.groups if self.user == self.who.user else frozenset[str]()
        exemptions = reading.exemptions(self.user, now)
        return lambda model: self.policy.limits_for(
            user=self.user, groups=groups, model=model, now=now, exemptions=exemptions
        )

    def free_capacity_for(
        self, reading: Reading, now: datetime, *, changing: Record | None = None
    ) -> PlannedCapacities:
        """Model -> its capacity that can still be guaranteed."""
        return PlannedCapacities(
            capacity=self.capacity,
            now=now,
            calendar_of=lambda model: self.context.calendars.of(model, reading, now),
            blocks=reading.blocks(start=now),
            changing=changing,
        )


def move_others(writing: Writing, decision: Decision) -> None:
    """Write the new plans of bookings that have to move."""
    for booking_id, plan in sorted(decision.moved.items()):
        writing.replan(booking_id, plan)


def refusal(decision: Decision) -> RefusedError:
    """The error for a negative decision."""
    return RefusedError(decision.violations, decision.earliest_start)


def granted(context: ServiceContext, outcome: T | RefusedError, again: Callable[[Reading], Decision]) -> T:
    """The result of a transaction; for a refusal, raises it with alternatives.

    The search for alternatives takes long and its result is only advice: no writer waits for it.

    Args:
        context: the service's dependencies.
        outcome: of the transaction.
        again: evaluates the same request, with alternatives.
    """
    if isinstance(outcome, RefusedError):
        raise RefusedError(outcome.violations, outcome.earliest_start, _alternatives(context, again))
    return outcome


def _alternatives(context: ServiceContext, again: Callable[[Reading], Decision]) -> tuple[Alternative, ...]:
    try:
        return context.store.read(again).alternatives
    except (StoreError, UnknownError, RefusedError):
        # The refusal remains valid, whatever has happened to the database or to the booking since.
        return ()
