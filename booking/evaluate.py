"""The one decision about a request: create, change, dry run, page and command line all ask here. Pure.

What is accepted can be honoured (law L5): ``Decision.plan`` is where it stands in the witness plan, and
``Decision.moved`` what has to be rewritten in the same transaction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import msgspec

from booking import alternatives, problems, search, spans
from booking.alternatives import Alternative
from booking.capacity import Capacity
from booking.case import Case
from booking.policy.limits import Limits
from booking.records import BookingRequest, Place, Record, Violation
from booking.room import Placing, Room, Wanted
from booking.wishes import Wish
from cluster import names
from cluster.objects.bookings import Topology

LimitsFor = Callable[[str], Limits]
"""Model (label form) -> the limits of this user on it: ``policy.limits_for`` with all but the model given."""
RoomFor = Callable[[str], Room]
"""Model (label form) -> its room, without the booking that is being changed. Other models than the one that
is asked for are asked about only when alternatives are looked for."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What would be stored, or everything that is wrong with it."""

    model: str
    """As it would be stored: in label form."""
    count: int
    topology: Topology
    namespace: str | None
    start: datetime | None
    end: datetime | None
    """As they would be stored: UTC, whole seconds; None where they are no instants."""
    violations: tuple[Violation, ...] = ()
    """Empty: accepted."""
    earliest_start: datetime | None = None
    """The first instant at which a booking of this size would keep every rule and fit, asked for then.

    It is as long as was asked for, or as the limits allow. None: never, or the request makes no sense, or a
    running booking is changed; or nothing is wrong, and whoever asks wants to know nothing else.
    """
    alternatives: tuple[Alternative, ...] = ()
    """Up to three other wishes that would be accepted now; none for what is accepted itself."""
    is_searched: bool = False
    """Whether alternatives were looked for: not for what is accepted, nor for what is no wish at all."""
    plan: tuple[Place, ...] = ()
    """Where it stands in the witness plan; empty where it is refused, or the room keeps none."""
    moved: Mapping[str, tuple[Place, ...]] = {}
    """Booking id -> its new plan, of others that have to move for it."""

    @property
    def is_accepted(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations


def evaluate(
    now: datetime,
    limits_for: LimitsFor,
    *,
    history: Sequence[Record],
    room_for: RoomFor,
    capacity: Capacity,
    request: BookingRequest,
    changing: Record | None = None,
    with_alternatives: bool = True,
    deadline: datetime | None = None,
) -> Decision:
    """Judge a request, or the change of a booking.

    A start up to ``limits.tolerance`` in the past becomes now. The booking then loses those minutes, but is
    judged by the length that was asked for: "a day from now" does not fail because the answer took a second.

    A change that only gives back (later start, earlier end, fewer GPUs) needs no room: it is accepted under a
    full calendar, too, and under limits that have been tightened since.

    Args:
        now: aware UTC.
        limits_for: the user's limits.
        history: the user's own records, of every state; ``changing`` may be among them.
        room_for: what can be promised, without ``changing``.
        capacity: the models and devices that there are.
        request: what is asked for; of a change, the whole booking as it should become.
        changing: the booking that is changed; None: a new one.
        with_alternatives: whether to look for what else there could be, which costs some searches: the
            alternatives of a refusal, the earliest start of what is accepted.
        deadline: by which the alternatives end; there are some also for what is accepted, but ends later.
    """
    inquiry = _Inquiry(
        now.replace(microsecond=0),
        cache(limits_for),
        tuple(record for record in history if changing is None or record.id != changing.id),
        cache(room_for),
        capacity,
        changing,
        is_curious=with_alternatives,
        deadline=deadline,
    )
    decision = inquiry.judged(request)
    if not with_alternatives or not (decision.start and decision.end):
        return decision
    if decision.is_accepted and (deadline is None or decision.end <= deadline):
        return decision
    wish = _wish(decision, decision.start, decision.end)
    # A namespace that cannot be would be refused with every other wish as well.
    if any(problems.of_namespace(request.namespace)) or not alternatives.is_meant(wish):
        return decision
    return msgspec.structs.replace(decision, alternatives=alternatives.find(inquiry, wish), is_searched=True)


def instead_of(
    lost: Record,
    now: datetime,
    limits_for: LimitsFor,
    *,
    history: Sequence[Record],
    room_for: RoomFor,
    capacity: Capacity,
) -> tuple[Alternative, ...]:
    """What its owner could have at once in place of a booking that cannot be kept; none where it can.

    By changing it; a planned one also by cancelling it and booking anew, on several nodes or of another
    model. A running one is neither cancelled nor moved, and whoever releases it waits before they book again.

    Args:
        lost: planned or running.
        now: aware UTC.
        limits_for: the owner's limits.
        history: the owner's records; ``lost`` may be among them.
        room_for: what can be promised, without ``lost``.
        capacity: the models and devices that there are.
    """
    moment = now.replace(microsecond=0)
    others = tuple(record for record in history if record.id != lost.id)
    limits, rooms = cache(limits_for), cache(room_for)

    def judge(changing: Record | None) -> _Inquiry:
        return _Inquiry(moment, limits, others, rooms, capacity, changing, is_curious=False, needs_room=True)

    wish = Wish(start=lost.start, end=lost.end, count=lost.count, model=lost.model, topology=lost.topology)
    changed = judge(lost)
    if changed.is_accepted(wish):
        return ()
    judges = _Instead(lost, changed, judge(None)) if lost.state(moment) == "planned" else changed
    return alternatives.find(judges, wish)


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """Everything that a request is judged by; the judge of alternatives."""

    now: datetime
    limits_for: LimitsFor
    history: tuple[Record, ...]
    room_for: RoomFor
    capacity: Capacity
    changing: Record | None
    is_curious: bool
    """Whether an accepted wish asks for its earliest start, too."""
    needs_room: bool = False
    """Whether there must be room even for what has been promised already: it was lost."""
    deadline: datetime | None = None
    """What ends later is no alternative."""

    def judged(self, request: BookingRequest) -> Decision:
        """Everything but alternatives."""
        model = names.model_label(request.model)
        topology = request.topology or ("single-node" if request.count > 1 else "any")
        had = self.changing
        # What it has got already is not asked for: some of it may be gone, and the rest may be given back.
        is_had = had is not None and 1 <= request.count <= had.count
        impossible = (
            []
            if is_had
            else [*problems.of_demand(model, request.count, topology=topology, capacity=self.capacity)]
        )
        malformed = [*problems.of_instants(start=request.start, end=request.end)]
        decision = Decision(
            model=model,
            count=request.count,
            topology=topology,
            namespace=request.namespace,
            start=None,
            end=None,
            violations=(*impossible, *problems.of_namespace(request.namespace), *malformed),
        )
        if malformed:
            return decision
        case = self._case(model, request)
        room = None if impossible else self.room_for(model)
        return _decided(decision, case, room, is_curious=self.is_curious)

    def _case(self, model: str, request: BookingRequest) -> Case:
        limits, had = self.limits_for(model), self.changing
        since = _seconds(request.start) if request.start else self.now
        keeps_start = had is not None and had.start == since
        is_now = spans.before(self.now, limits.tolerance, limits.tz) <= since < self.now and not keeps_start
        return Case(
            now=self.now,
            limits=limits,
            history=self.history,
            model=model,
            count=request.count,
            start=self.now if is_now else since,
            end=_seconds(request.end),
            since=since,
            changing=had,
        )

    # --- what the search for alternatives asks --------------------------------------------------------------
    @property
    def models(self) -> tuple[str, ...]:
        """A change stays with its model."""
        return (self.changing.model,) if self.changing else self.capacity.models

    def there(self, model: str, topology: Topology) -> int:
        """Of all nodes, or of the largest."""
        capacity = self.capacity
        return capacity.largest(model) if topology == "single-node" else capacity.total(model)

    def case(self, wish: Wish) -> Case:
        """The wish as the rules see it."""
        return self._case(wish.model, _request(wish))

    def room(self, model: str) -> Room:
        """What there is of a model."""
        return self.room_for(model)

    def is_accepted(self, wish: Wish, *, thoroughly: bool = True) -> bool:
        """Whether nothing is wrong with it."""
        if any(problems.of_demand(wish.model, wish.count, topology=wish.topology, capacity=self.capacity)):
            return False
        case = self.case(wish)
        if any(_broken(case)):
            return False
        if not _is_room_asked(case, needs_room=self.needs_room):
            return True
        room, want = self.room_for(wish.model), search.wanted(case, wish.topology)
        return search.is_free(case, room, want) if thoroughly else search.is_plainly_free(case, room, want)


@dataclass(frozen=True, slots=True)
class _Instead:
    """Judges what could become of a planned booking: what it can be changed to, or what is booked anew."""

    lost: Record
    changed: _Inquiry
    anew: _Inquiry

    @property
    def now(self) -> datetime:
        """The instant."""
        return self.anew.now

    @property
    def deadline(self) -> None:
        """There is none."""

    @property
    def models(self) -> tuple[str, ...]:
        """Those that there are."""
        return self.anew.models

    def there(self, model: str, topology: Topology) -> int:
        """Of all nodes, or of the largest."""
        return self.anew.there(model, topology)

    def case(self, wish: Wish) -> Case:
        """The wish as the rules see it."""
        return self._of(wish).case(wish)

    def room(self, model: str) -> Room:
        """What there is of a model."""
        return self.anew.room(model)

    def is_accepted(self, wish: Wish, *, thoroughly: bool = True) -> bool:
        """Whether nothing is wrong with it."""
        return self._of(wish).is_accepted(wish, thoroughly=thoroughly)

    def _of(self, wish: Wish) -> _Inquiry:
        is_change = wish.model == self.lost.model and wish.topology == self.lost.topology
        return self.changed if is_change else self.anew


def _decided(decision: Decision, case: Case, room: Room | None, *, is_curious: bool) -> Decision:
    """The decision with everything that depends on time."""
    want = search.wanted(case, decision.topology)
    violations = (*decision.violations, *_wrong(case, room, want))
    placing = _placing(case, room, want) if room and not violations else Placing()
    # A namespace that cannot be is none at any other time either.
    is_asked = not decision.violations and (violations or is_curious)
    return msgspec.structs.replace(
        decision,
        start=case.start,
        end=case.end,
        violations=violations,
        earliest_start=search.earliest_start(case, room, want) if room and is_asked else None,
        plan=placing.plan,
        moved=placing.moved,
    )


def _wrong(case: Case, room: Room | None, want: Wanted) -> Iterator[Violation]:
    """What is wrong with a case: its instants, the rules that it breaks, the room that is lacking."""
    yield from _broken(case)
    if room and _is_room_asked(case):
        yield from search.shortage(case, room, want)


def _broken(case: Case) -> Iterator[Violation]:
    """What is wrong with a case whatever room there is."""
    yield from problems.of_span(case)
    yield from search.broken(case)


def _is_room_asked(case: Case, *, needs_room: bool = False) -> bool:
    """Whether it has to have room from now on."""
    return (needs_room or not case.gives_back) and max(case.start, case.now) < case.end


def _placing(case: Case, room: Room, want: Wanted) -> Placing:
    """Where it stands: what only gives back stays where it was, though the calendar may be overfull."""
    if case.gives_back and case.changing is not None:
        return Placing(plan=_trimmed(case.changing.plan, case.count))
    placing = room.place(want, max(case.start, case.now), case.end)
    if placing is None:
        raise RuntimeError(f"The room of {case.model} lacks nothing and has no place.")
    return placing


def _trimmed(plan: tuple[Place, ...], count: int) -> tuple[Place, ...]:
    """A plan for fewer devices."""
    kept = []
    for place in plan:
        if count:
            kept.append(Place(place.node, min(place.count, count)))
            count -= kept[-1].count
    return tuple(kept)


def _request(wish: Wish) -> BookingRequest:
    return BookingRequest(
        model=wish.model, start=wish.start, end=wish.end, count=wish.count, topology=wish.topology
    )


def _wish(decision: Decision, start: datetime, end: datetime) -> Wish:
    return Wish(start=start, end=end, count=decision.count, model=decision.model, topology=decision.topology)


def _seconds(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)
