"""The one decision about a request, shared by create, change, dry run, page and command line. Pure.

An accepted booking can be honoured (law L5): ``Decision.plan`` is its place in the booking plan, and
``Decision.moved`` must be written in the same transaction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import msgspec

from booking import durations
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import CapacityRequest, FreeCapacity, Placement
from booking.server.evaluation import alternatives, request_validation, start_rules
from booking.server.evaluation.alternatives import Alternative
from booking.server.evaluation.proposals import Proposal
from booking.server.records import BookingRequest, Place, Record, Violation
from booking.server.rule_context import RuleContext
from cluster import names
from cluster.objects.bookings import Topology

LimitsFor = Callable[[str], Limits]
"""Model (label form) -> the limits of this user on it: ``policy.limits_for`` with all but the model given."""
FreeCapacityFor = Callable[[str], FreeCapacity]
"""Model (label form) -> its free capacity, without the booking being changed. Models other than the requested
one are queried only when alternatives are searched for."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What would be stored, or everything that is wrong with the request."""

    model: str
    """Model in label form, as it would be stored."""
    count: int
    memory: int | None = None
    """MiB of each of them; None: whole GPUs."""
    topology: Topology
    namespace: str | None
    start: datetime | None
    end: datetime | None
    """Start and end as they would be stored: UTC, whole seconds; None where the request has no instants."""
    violations: tuple[Violation, ...] = ()
    """Rules that the request breaks; empty: it is accepted."""
    earliest_start: datetime | None = None
    """The first instant at which a booking of this size, requested then, would keep every rule and fit.

    It has the requested length, or the longest that the limits allow. None: never, or the request makes no
    sense, or a running booking is changed; or nothing is wrong and the caller asked for nothing else.
    """
    alternatives: tuple[Alternative, ...] = ()
    """Up to three other requests that would be accepted now; none if this one is accepted."""
    is_searched: bool = False
    """Whether alternatives were searched for: not if it is accepted, nor if the request makes no sense."""
    plan: tuple[Place, ...] = ()
    """The booking's place in the booking plan; empty if it is refused, or its model has no plan."""
    moved: Mapping[str, tuple[Place, ...]] = {}
    """Booking id -> its new plan, of others that have to move for it."""

    @property
    def is_accepted(self) -> bool:
        """Whether the request breaks no rule."""
        return not self.violations


def evaluate(
    now: datetime,
    limits_for: LimitsFor,
    *,
    history: Sequence[Record],
    free_capacity_for: FreeCapacityFor,
    capacity: Capacity,
    request: BookingRequest,
    changing: Record | None = None,
    with_alternatives: bool = True,
    deadline: datetime | None = None,
) -> Decision:
    """Judge a request, or the change of a booking.

    A start up to ``limits.tolerance`` in the past becomes now. The booking then loses those minutes, but is
    judged by the requested length: "a day from now" does not fail because the answer took a second.

    A change that only gives back (later start, earlier end, fewer GPUs) needs no free GPUs: it is accepted
    even if the calendar is full or limits have been tightened since.

    Args:
        now: aware UTC.
        limits_for: the user's limits.
        history: the user's own records, of every state; ``changing`` may be among them.
        free_capacity_for: what can be guaranteed, without ``changing``.
        capacity: the existing models and devices.
        request: the request; for a change, the whole booking as it should become.
        changing: the booking that is changed; None: a new one.
        with_alternatives: whether to search for the alternatives of a refusal, and for the earliest start of
            an accepted request; this costs some searches.
        deadline: by which the alternatives end; an accepted request that ends later has some, too.
    """
    inquiry = _Inquiry(
        now.replace(microsecond=0),
        cache(limits_for),
        tuple(record for record in history if changing is None or record.id != changing.id),
        cache(free_capacity_for),
        capacity,
        changing,
        wants_earliest_start=with_alternatives,
        deadline=deadline,
    )
    decision = inquiry.judged(request)
    if not with_alternatives or not (decision.start and decision.end):
        return decision
    if decision.is_accepted and (deadline is None or decision.end <= deadline):
        return decision
    proposal = _proposal(decision, decision.start, decision.end)
    # An impossible namespace would be refused with every other request as well, and so would another kind.
    impossible = (*request_validation.of_namespace(request.namespace), *_of_kind(changing, request))
    if impossible or not alternatives.makes_sense(proposal):
        return decision
    return msgspec.structs.replace(
        decision, alternatives=alternatives.find(inquiry, proposal), is_searched=True
    )


def instead_of(
    lost: Record,
    now: datetime,
    limits_for: LimitsFor,
    *,
    history: Sequence[Record],
    free_capacity_for: FreeCapacityFor,
    capacity: Capacity,
) -> tuple[Alternative, ...]:
    """What the owner could have at once in place of a booking that cannot be kept; none if it can be kept.

    By changing it; a planned one also by cancelling it and booking again, on several nodes or another model.
    A running one is neither cancelled nor moved, and a user who releases it waits before booking again.

    Args:
        lost: planned or running.
        now: aware UTC.
        limits_for: the owner's limits.
        history: the owner's records; ``lost`` may be among them.
        free_capacity_for: what can be guaranteed, without ``lost``.
        capacity: the existing models and devices.
    """
    moment = now.replace(microsecond=0)
    others = tuple(record for record in history if record.id != lost.id)
    limits, free_capacities = cache(limits_for), cache(free_capacity_for)

    def judge(changing: Record | None) -> _Inquiry:
        return _Inquiry(
            moment,
            limits,
            others,
            free_capacities,
            capacity,
            changing,
            wants_earliest_start=False,
            needs_capacity=True,
        )

    proposal = Proposal(
        start=lost.start,
        end=lost.end,
        count=lost.count,
        model=lost.model,
        topology=lost.topology,
        memory=lost.memory,
    )
    changed = judge(lost)
    if changed.is_accepted(proposal):
        return ()
    judges = _Instead(lost, changed, judge(None)) if lost.state(moment) == "planned" else changed
    return alternatives.find(judges, proposal)


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """Everything that a request is evaluated against; implements ``Judge`` for the alternatives."""

    now: datetime
    limits_for: LimitsFor
    history: tuple[Record, ...]
    free_capacity_for: FreeCapacityFor
    capacity: Capacity
    changing: Record | None
    wants_earliest_start: bool
    """Whether an accepted request gets its earliest start, too."""
    needs_capacity: bool = False
    """Whether GPUs must be free even for what was guaranteed before, because it was lost."""
    deadline: datetime | None = None
    """An alternative must end by then."""

    def judged(self, request: BookingRequest) -> Decision:
        """The decision about a request, without alternatives."""
        model = names.model_label(request.model)
        topology = request.topology or ("single-node" if request.count > 1 else "any")
        had = self.changing
        # GPUs that the booking already has are not requested: some may be gone, and the rest may be given
        # back.
        impossible = (
            []
            if had is not None and _is_had(had, request)
            else [
                *request_validation.of_demand(
                    model, request.count, topology=topology, memory=request.memory, capacity=self.capacity
                )
            ]
        )
        malformed = [*request_validation.of_instants(start=request.start, end=request.end)]
        kept = [*_of_kind(had, request)]
        decision = Decision(
            model=model,
            count=request.count,
            memory=request.memory,
            topology=topology,
            namespace=request.namespace,
            start=None,
            end=None,
            violations=(*impossible, *kept, *request_validation.of_namespace(request.namespace), *malformed),
        )
        if malformed:
            return decision
        case = self._case(model, request)
        free_capacity = None if impossible or kept else self.free_capacity_for(model)
        return _decided(decision, case, free_capacity, wants_earliest_start=self.wants_earliest_start)

    def _case(self, model: str, request: BookingRequest) -> RuleContext:
        limits, had = self.limits_for(model), self.changing
        since = _seconds(request.start) if request.start else self.now
        keeps_start = had is not None and had.start == since
        is_now = (
            durations.before(self.now, limits.tolerance, limits.tz) <= since < self.now and not keeps_start
        )
        return RuleContext(
            now=self.now,
            limits=limits,
            history=self.history,
            model=model,
            count=request.count,
            memory=request.memory,
            memories=self.capacity.memories,
            start=self.now if is_now else since,
            end=_seconds(request.end),
            since=since,
            changing=had,
        )

    # --- for the search for alternatives ----------------------------------------------------------------
    @property
    def models(self) -> tuple[str, ...]:
        """All models; a change stays with its model."""
        return (self.changing.model,) if self.changing else self.capacity.models

    def there(self, model: str, topology: Topology) -> int:
        """Number of GPUs of a model on all nodes, or on the largest one."""
        capacity = self.capacity
        return capacity.largest(model) if topology == "single-node" else capacity.total(model)

    def case(self, proposal: Proposal) -> RuleContext:
        """The request as the rules see it."""
        return self._case(proposal.model, _request(proposal))

    def free_capacity(self, model: str) -> FreeCapacity:
        """The free capacity of a model."""
        return self.free_capacity_for(model)

    def is_accepted(self, proposal: Proposal, *, thoroughly: bool = True) -> bool:
        """Whether the proposal would be accepted now."""
        if any(
            request_validation.of_demand(
                proposal.model,
                proposal.count,
                topology=proposal.topology,
                memory=proposal.memory,
                capacity=self.capacity,
            )
        ):
            return False
        case = self.case(proposal)
        if any(_broken(case)):
            return False
        if not _needs_gpus(case, needs_capacity=self.needs_capacity):
            return True
        free_capacity, want = (
            self.free_capacity_for(proposal.model),
            start_rules.wanted(case, proposal.topology),
        )
        return (
            start_rules.is_free(case, free_capacity, want)
            if thoroughly
            else start_rules.is_plainly_free(case, free_capacity, want)
        )


@dataclass(frozen=True, slots=True)
class _Instead:
    """Evaluates replacements of a planned booking: a change of it, or a new booking."""

    lost: Record
    changed: _Inquiry
    fresh: _Inquiry

    @property
    def now(self) -> datetime:
        """The instant of the decision, aware UTC."""
        return self.fresh.now

    @property
    def deadline(self) -> None:
        """None: an alternative may end at any time."""

    @property
    def models(self) -> tuple[str, ...]:
        """Models, in label form, with GPUs in the cluster."""
        return self.fresh.models

    def there(self, model: str, topology: Topology) -> int:
        """Number of GPUs of a model on all nodes, or on the largest if they must be on one."""
        return self.fresh.there(model, topology)

    def case(self, proposal: Proposal) -> RuleContext:
        """The request as the rules see it."""
        return self._of(proposal).case(proposal)

    def free_capacity(self, model: str) -> FreeCapacity:
        """The free capacity of a model."""
        return self.fresh.free_capacity(model)

    def is_accepted(self, proposal: Proposal, *, thoroughly: bool = True) -> bool:
        """Whether the proposal would be accepted now."""
        return self._of(proposal).is_accepted(proposal, thoroughly=thoroughly)

    def _of(self, proposal: Proposal) -> _Inquiry:
        is_change = proposal.model == self.lost.model and proposal.topology == self.lost.topology
        return self.changed if is_change else self.fresh


def _is_had(had: Record, request: BookingRequest) -> bool:
    """Whether a change asks for no more GPUs than the booking has, and no more memory of them."""
    is_no_larger = request.memory == had.memory or 1 <= (request.memory or 0) <= (had.memory or 0)
    return 1 <= request.count <= had.count and is_no_larger


def _of_kind(had: Record | None, request: BookingRequest) -> Iterator[Violation]:
    return request_validation.of_kind(had, request.memory)


def _decided(
    decision: Decision, case: RuleContext, free_capacity: FreeCapacity | None, *, wants_earliest_start: bool
) -> Decision:
    """The decision with everything that depends on time."""
    want = start_rules.wanted(case, decision.topology)
    violations = (*decision.violations, *_wrong(case, free_capacity, want))
    placing = _placing(case, free_capacity, want) if free_capacity and not violations else Placement()
    # An impossible namespace is refused at any other time, too.
    needs_earliest_start = not decision.violations and (violations or wants_earliest_start)
    return msgspec.structs.replace(
        decision,
        start=case.start,
        end=case.end,
        violations=violations,
        earliest_start=start_rules.earliest_start(case, free_capacity, want)
        if free_capacity and needs_earliest_start
        else None,
        plan=placing.plan,
        moved=placing.moved,
    )


def _wrong(
    case: RuleContext, free_capacity: FreeCapacity | None, want: CapacityRequest
) -> Iterator[Violation]:
    """The violations of a case: impossible instants, broken rules, missing GPUs."""
    yield from _broken(case)
    if free_capacity and _needs_gpus(case):
        yield from start_rules.shortage(case, free_capacity, want)


def _broken(case: RuleContext) -> Iterator[Violation]:
    """The violations of a case that do not depend on free capacity."""
    yield from request_validation.of_span(case)
    yield from start_rules.broken(case)


def _needs_gpus(case: RuleContext, *, needs_capacity: bool = False) -> bool:
    """Whether free GPUs are needed from now on."""
    return (needs_capacity or not case.gives_back) and max(case.start, case.now) < case.end


def _placing(case: RuleContext, free_capacity: FreeCapacity, want: CapacityRequest) -> Placement:
    """The booking's place; a change that only gives back keeps its own, even if the calendar is overfull."""
    if case.gives_back and case.changing is not None:
        return Placement(plan=_trimmed(case.changing.plan, case.count))
    placing = free_capacity.place(want, max(case.start, case.now), case.end)
    if placing is None:
        raise RuntimeError(f"{case.model} has enough free GPUs, and no place for the booking.")
    return placing


def _trimmed(plan: tuple[Place, ...], count: int) -> tuple[Place, ...]:
    """The first places of a plan, as many as ``count`` devices need."""
    kept = []
    for place in plan:
        if count:
            kept.append(Place(place.node, min(place.count, count), place.lanes[:count]))
            count -= kept[-1].count
    return tuple(kept)


def _request(proposal: Proposal) -> BookingRequest:
    return BookingRequest(
        model=proposal.model,
        start=proposal.start,
        end=proposal.end,
        count=proposal.count,
        memory=proposal.memory,
        topology=proposal.topology,
    )


def _proposal(decision: Decision, start: datetime, end: datetime) -> Proposal:
    return Proposal(
        start=start,
        end=end,
        count=decision.count,
        model=decision.model,
        topology=decision.topology,
        memory=decision.memory,
    )


def _seconds(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)
