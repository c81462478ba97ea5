"""When there are so many GPUs for so long: the first starts that would be accepted now."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from booking import problems, search, spans, wording
from booking.case import Case
from booking.errors import RefusedError
from booking.evaluate import Decision
from booking.principals import Principal
from booking.records import BookingRequest, Slot, SlotRequest, Violation
from booking.room import Room
from booking.service.authority import beneficiary
from booking.service.ground import Ground, whole
from booking.service.judging import Bid, granted, refusal
from booking.store import Reading
from cluster import names
from cluster.objects.bookings import Topology

MOST: Final = 10
"""So many are answered at most."""
_DAY: Final = timedelta(days=1)


def earliest(
    ground: Ground, who: Principal, wish: SlotRequest, *, user: str | None, most: int
) -> tuple[Slot, ...]:
    """The first slots, each on another day, or after the one before where that is shorter than a day."""
    bid = Bid.of(ground, who, beneficiary(who, user, ground.identity_rules))
    demand_instants(wish)

    def answer(reading: Reading) -> tuple[Slot, ...] | RefusedError:
        try:
            return _answer(bid, reading, whole(ground.clock.now()), wish, most=max(1, min(most, MOST)))
        except RefusedError as refused:
            return refused

    return granted(ground, ground.store.read(answer), trial(bid, wish))


def trial(bid: Bid, wish: SlotRequest) -> Callable[[Reading], Decision]:
    """What asks how the first start would be judged now, with alternatives that end by the deadline."""

    def decide(reading: Reading) -> Decision:
        now = bid.ground.clock.now()
        return bid.judged(reading, now, request_of(bid, reading, now, wish), deadline=wish.deadline)

    return decide


def first(bid: Bid, reading: Reading, now: datetime, wish: SlotRequest) -> Slot:
    """The first slot of all.

    Raises:
        RefusedError: there is none.
    """
    return _answer(bid, reading, whole(now), wish, most=1)[0]


def request_of(bid: Bid, reading: Reading, now: datetime, wish: SlotRequest) -> BookingRequest:
    """What is asked for if it had to begin as soon as it may."""
    now = whole(now)
    start = max(now, whole((wish.not_before or now).astimezone(UTC)))
    zone = bid.limits_for(reading, now)(names.model_label(wish.model)).tz
    return as_request(wish, start, spans.after(start, wish.duration, zone))


@dataclass(frozen=True, slots=True)
class _Search:
    """Everything that a slot depends on but its start."""

    case: Case
    room: Room
    topology: Topology
    namespace: str | None

    def slots(self, not_before: datetime) -> Iterator[Slot]:
        """All slots from an instant on."""
        case, limits = self.case, self.case.limits
        want = search.wanted(case, self.topology)
        while (start := search.next_start(case, self.room, want, not_before)) is not None:
            end = search.end_of(start, case.length, limits)
            yield Slot(
                model=case.model,
                count=case.count,
                topology=self.topology,
                namespace=self.namespace,
                start=start,
                end=end,
            )
            midnight = start.astimezone(limits.tz).replace(tzinfo=None, hour=0, minute=0, second=0)
            not_before = min(max(end, start + _SHORTEST_STEP), spans.resolved(midnight + _DAY, limits.tz))


_SHORTEST_STEP: Final = timedelta(minutes=1)


def _answer(bid: Bid, reading: Reading, now: datetime, wish: SlotRequest, *, most: int) -> tuple[Slot, ...]:
    limits_for = bid.limits_for(reading, now)
    model = names.model_label(wish.model)
    request = request_of(bid, reading, now, wish)
    start = request.start or now
    decision, _ = bid.decided(reading, now, request)
    # A start that is none on the grid, or is taken, is not what is asked about; what no start can mend, is.
    if any(violation.earliest_start is None for violation in decision.violations):
        raise refusal(decision)
    case = Case(
        now=now,
        limits=limits_for(model),
        history=reading.history(bid.user),
        model=model,
        count=wish.count,
        start=start,
        end=request.end,
        since=start,
    )
    room = bid.room_for(reading, now)(model)
    found = tuple(islice(_Search(case, room, decision.topology, wish.namespace).slots(start), most))
    in_time = tuple(slot for slot in found if wish.deadline is None or slot.end <= wish.deadline)
    if not found:
        raise refusal(decision)
    if not in_time and wish.deadline is not None:
        raise _too_late(found[0], wish.deadline, decision)
    return in_time


def as_request(wish: SlotRequest, start: datetime, end: datetime) -> BookingRequest:
    """The booking of a slot."""
    return BookingRequest(
        model=wish.model,
        start=start,
        end=end,
        count=wish.count,
        namespace=wish.namespace,
        topology=wish.topology,
    )


def demand_instants(wish: SlotRequest) -> None:
    """Refuse instants that cannot be meant."""
    moments = {"earliest start": wish.not_before, "deadline": wish.deadline}
    wrong = [
        each
        for what, moment in moments.items()
        if moment is not None
        for each in problems.of_instant(what, moment)
    ]
    if wrong:
        raise RefusedError(wrong)


_OF_STEPS: Final = frozenset({"off-the-grid", "not-whole-steps"})
"""Which steps a slot begins and ends on is its search's to choose."""


def _too_late(first: Slot, deadline: datetime, soonest: Decision) -> RefusedError:
    """What stands in the way of a booking as soon as possible, and that the first slot is too late."""
    violation = Violation(
        rule="after-the-deadline",
        message=f"The first such slot is from {wording.instant(first.start)} to "
        f"{wording.instant(first.end)}, which is after the deadline {wording.instant(deadline)}.",
        limit=wording.iso(deadline.astimezone(UTC)),
        actual=wording.iso(first.end),
    )
    causes = (each for each in soonest.violations if each.rule not in _OF_STEPS)
    return RefusedError([violation, *causes], first.start)
