"""The lines of waiting pods, as people see them: by the order in which the controller gives turns. Pure.

What is owed is what the controller has recorded within a minute, and what has been owed since then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final

from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.applicants import Applicant, Applicants, applicant_of
from booking.fair_shares.pools import Instant, pools_of, turns_in
from booking.fair_shares.standing import settings_of, tree_of
from booking.policy.fair_shares import FairShares
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import (
    Books,
    Case,
    Line,
    Shares,
    ShareSettings,
    Tenant,
    Unit,
    advance,
    deserve,
    in_turn,
)
from cluster.decide.queueing import by_priority_and_age
from cluster.objects.gangs import Gang, gang_of
from cluster.objects.pods import Pod, first_created

NOTHING_OWED: Final[Mapping[str, Books]] = MappingProxyType({})
_Due = Callable[[Unit], datetime | None]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod in line."""

    position: int
    """1 is the next; 0: its turn has come, and it is about to start."""
    pod: Pod
    gpus: int
    since: datetime
    turn_due: datetime | None = None
    """When its owner has waited long enough for what it needs above the share, if nothing changes; in the
    past where only others' pods that may not be taken stand against it. None where it needs no turn."""
    taken_at: datetime | None = None
    """When others' GPUs are taken back for it if nothing changes; None where that is not known."""
    gang: Gang | None = None
    """The gang of which it is the first pod; ``gpus`` are those of all."""
    pods: int = 1
    """How many pods of it wait."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """A pod that waits for the other pods of its gang, and is not in line."""

    pod: Pod
    gpus: int
    since: datetime
    gang: Gang
    there: int
    """How many pods of it exist."""


@dataclass(frozen=True, slots=True)
class ModelQueue:
    """The line of one model."""

    model: str
    capacity: int
    """GPUs that are shared."""
    shares: Shares
    waiting: tuple[Waiting, ...]
    gathering: tuple[Gathering, ...] = ()

    def deserves(self, tenant: Tenant) -> float:
        """GPUs that a tenant deserves."""
        return float(self.shares.deserved.get(tenant, 0))


def queues(
    instant: Instant,
    holder_cache: HolderCache,
    shares: FairShares,
    *,
    by_age: bool = False,
    recorded: Mapping[str, Books] = NOTHING_OWED,
) -> Mapping[str, ModelQueue]:
    """Model -> its line, of the models that somebody holds or waits for without a booking.

    Args:
        instant: the snapshot.
        holder_cache: who holds what; affects only the speed.
        shares: the settings.
        by_age: as pods are served where nobody gives turns.
        recorded: model -> what was owed when the controller has written it last.
    """
    reader = Applicants()
    applicants = reader.at(instant, shares)
    gathering = _gathering(reader, instant, shares)
    lines: dict[str, Line] = {}
    for applicant in applicants.values():
        for model in _models(applicant, instant):
            lines.setdefault(model, Line()).add(applicant.unit)
    started = _started(instant)
    found: dict[str, ModelQueue] = {}
    for model, pool in sorted(pools_of(instant, holder_cache, shares).items()):
        line = lines.get(model, Line())
        if pool.held or len(line) or gathering.get(model):
            owed = deserve(tree_of(shares, model), pool.capacity, pool.held, line.wanted)
            books = _until_now(recorded.get(model, Books()), owed, line, now=instant.now, shares=shares)
            order = _by_age(line, applicants) if by_age else _by_shares(line, owed, books)
            due = partial(_turn_due, owed, books, now=instant.now, settings=settings_of(shares))
            reclaims = shares.mode == "reclaim" and not by_age
            taken = _taken_at(owed, books, line, now=instant.now) if reclaims else {}
            in_line = _in_line(order, applicants, due if reclaims else None, taken)
            waiting = (*started.get(model, ()), *in_line)
            theirs = tuple(gathering.get(model, ()))
            found[model] = ModelQueue(model, pool.capacity, owed, waiting, theirs)
    return found


def _until_now(books: Books, owed: Shares, line: Line, *, now: datetime, shares: FairShares) -> Books:
    """The books as they are now, if nothing has changed since they were written."""
    at = microseconds(now)
    return advance(books, owed, at, settings_of(shares), largest=line.largest) if books.at else Books(at=at)


def _turn_due(
    owed: Shares, books: Books, unit: Unit, *, now: datetime, settings: ShareSettings
) -> datetime | None:
    left = Case(unit, owed, books, settings).turn_due_in()
    return None if left is None else now + timedelta(microseconds=left)


def _taken_at(owed: Shares, books: Books, line: Line, *, now: datetime) -> Mapping[str, datetime]:
    """Uid of a unit -> when others' GPUs are taken for it, as the controller has found out."""
    return {
        uid: now + timedelta(microseconds=at - microseconds(now))
        for uid, at in books.due.items()
        if uid in line and owed.is_starved(line.unit(uid).tenant)
    }


def _gathering(reader: Applicants, instant: Instant, shares: FairShares) -> Mapping[str, list[Gathering]]:
    """Model -> pods whose gangs are not complete."""
    found: dict[str, list[Gathering]] = {}
    for uid, (there, gang) in reader.gathering.items():
        pod = instant.pods[uid]
        applicant = applicant_of(pod, shares)
        if applicant is None:
            continue
        for model in _models(applicant, instant):
            one = Gathering(pod, applicant.request.devices, first_created(pod), gang, there)
            found.setdefault(model, []).append(one)
    return found


def _in_line(
    order: Iterable[Unit],
    applicants: Mapping[str, Applicant],
    due: _Due | None,
    taken_at: Mapping[str, datetime],
) -> Iterator[Waiting]:
    """The pods and gangs in this order."""
    for position, unit in enumerate(order, start=1):
        applicant = applicants[unit.uid]
        pod = applicant.pod
        yield Waiting(
            position,
            pod,
            round(unit.gpus),
            first_created(pod),
            turn_due=due(unit) if due else None,
            taken_at=taken_at.get(unit.uid),
            gang=gang_of(pod) if applicant.members else None,
            pods=len(applicant.singles),
        )


def _by_shares(line: Line, shares: Shares, books: Books) -> Iterator[Unit]:
    """In turn; at the end those that would be beyond a limit, as long as their owners hold what they do."""
    left = Line(line)
    for unit in in_turn(line, shares, books):
        left.remove(unit.uid)
        yield unit
    yield from sorted(left, key=lambda unit: (unit.created, unit.uid))


def _by_age(line: Line, applicants: Mapping[str, Applicant]) -> Iterator[Unit]:
    unit_of = {applicants[unit.uid].pod.metadata.uid: unit for unit in line}
    for pod in by_priority_and_age(applicants[unit.uid].pod for unit in line):
        yield unit_of[pod.metadata.uid]


def _started(instant: Instant) -> Mapping[str, list[Waiting]]:
    """Model -> pods whose turn has come and that are not bound yet."""
    found: dict[str, list[Waiting]] = {}
    for uid, hold in sorted(turns_in(instant).items()):
        view = instant.node_snapshots.views.get(hold.node)
        model = next((d.model for d in view.devices if d.uuid in hold.devices), None) if view else None
        if model is not None:
            pod = instant.pods[uid]
            found.setdefault(model, []).append(Waiting(0, pod, len(hold.devices), first_created(pod)))
    return found


def _models(applicant: Applicant, instant: Instant) -> Iterator[str]:
    """The models of which some node has enough devices for the pod, or a gang's largest, whoever has them."""
    seen: set[str] = set()
    for view in instant.node_snapshots.views.values():
        for model, devices in view.healthy_by_model.get(applicant.resource, {}).items():
            suiting = sum(map(applicant.request.selector.takes, devices))
            if model not in seen and suiting >= applicant.request.devices:
                seen.add(model)
                if _has_room(applicant, model, instant):
                    yield model


def _has_room(applicant: Applicant, model: str, instant: Instant) -> bool:
    """Whether the nodes have enough devices for all pods of a gang at once, whoever holds them."""
    views = instant.node_snapshots.views.values()
    left = [len(view.healthy_by_model.get(applicant.resource, {}).get(model, ())) for view in views]
    for member in applicant.members:
        at = next((index for index, there in enumerate(left) if there >= member.request.devices), None)
        if at is None:
            return False
        left[at] -= member.request.devices
    return True
