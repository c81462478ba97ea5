"""The lines of waiting pods, as people see them: by the order in which the controller gives turns. Pure.

What was used in the past decides ties for the controller and is not known here, so two users who hold the
same may be shown in the other order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.applicants import Applicant, Applicants
from booking.fair_shares.pools import Instant, pools_of, turns_in
from booking.fair_shares.standing import tree_of
from booking.policy.fair_shares import FairShares
from cluster.decide.fairshare import Books, Line, Shares, Tenant, Unit, deserve, in_turn
from cluster.decide.queueing import by_priority_and_age
from cluster.objects.pods import Pod, first_created


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod in line."""

    position: int
    """1 is the next; 0: its turn has come, and it is about to start."""
    pod: Pod
    gpus: int
    since: datetime


@dataclass(frozen=True, slots=True)
class ModelQueue:
    """The line of one model."""

    model: str
    capacity: int
    """GPUs that are shared."""
    shares: Shares
    waiting: tuple[Waiting, ...]

    def deserves(self, tenant: Tenant) -> float:
        """GPUs that a tenant deserves."""
        return float(self.shares.deserved.get(tenant, 0))


def queues(
    instant: Instant, holder_cache: HolderCache, shares: FairShares, *, by_age: bool = False
) -> Mapping[str, ModelQueue]:
    """Model -> its line, of the models that somebody holds or waits for without a booking.

    ``by_age``: as pods are served where nobody gives turns.
    """
    applicants = Applicants().at(instant, shares)
    lines: dict[str, Line] = {}
    for applicant in applicants.values():
        for model in _models(applicant, instant):
            lines.setdefault(model, Line()).add(applicant.unit)
    started = _started(instant)
    found: dict[str, ModelQueue] = {}
    for model, pool in sorted(pools_of(instant, holder_cache, shares).items()):
        line = lines.get(model, Line())
        if pool.held or len(line):
            owed = deserve(tree_of(shares, model), pool.capacity, pool.held, line.wanted)
            order = _by_age(line, applicants) if by_age else _by_shares(line, owed)
            waiting = (*started.get(model, ()), *_in_line(order, applicants))
            found[model] = ModelQueue(model, pool.capacity, owed, waiting)
    return found


def _in_line(order: Iterable[Unit], applicants: Mapping[str, Applicant]) -> Iterator[Waiting]:
    """The pods in this order."""
    for position, unit in enumerate(order, start=1):
        pod = applicants[unit.uid].pod
        yield Waiting(position, pod, round(unit.gpus), first_created(pod))


def _by_shares(line: Line, shares: Shares) -> Iterator[Unit]:
    """In turn; at the end those that would be beyond a limit, as long as their owners hold what they do."""
    left = Line(line)
    for unit in in_turn(line, shares, Books()):
        left.remove(unit.uid)
        yield unit
    yield from sorted(left, key=lambda unit: (unit.created, unit.uid))


def _by_age(line: Line, applicants: Mapping[str, Applicant]) -> Iterator[Unit]:
    for pod in by_priority_and_age(applicants[unit.uid].pod for unit in line):
        yield applicants[pod.metadata.uid].unit


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
    """The models of which some node has enough devices for the pod, whoever holds them."""
    seen: set[str] = set()
    for view in instant.node_snapshots.views.values():
        for model, devices in view.healthy_by_model.get(applicant.resource, {}).items():
            suiting = sum(map(applicant.request.selector.takes, devices))
            if model not in seen and suiting >= applicant.request.devices:
                seen.add(model)
                yield model
