"""A cluster in virtual time: jobs come, run, are taken and come back. Which rule decides is passed in."""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from cluster.decide.fairshare import EQUAL, Line, Running, Shares, Tenant, Tree, Unit, deserve
from cluster.decide.fairshare.settings import DAY, MINUTE, SECOND
from tests.fairness.machines import Machines, Placement
from tests.fairness.measures import Measures

RESTART = MINUTE
"""What a start after an eviction costs each GPU."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A unit with its work. Instants and spans are microseconds."""

    unit: Unit
    work: int
    """How long it runs if nobody takes it."""
    checkpoint: int | None = 30 * MINUTE
    """How often it saves its work; None: never."""
    saved: int = 0
    since: int | None = None
    """When it started; None while it waits."""
    nodes: tuple[str, ...] = ()
    evictions: int = 0
    taken: tuple[int, ...] = ()
    turn_until: int = 0
    version: int = 0

    def kept(self, now: int) -> int:
        """How much of what it ran since its start is saved."""
        ran = now - (now if self.since is None else self.since)
        done = max(0, ran - (RESTART if self.evictions else 0))
        return 0 if self.checkpoint is None else done // self.checkpoint * self.checkpoint

    def cost(self, now: int) -> int:
        """What its eviction destroys, in GPU-microseconds, with the restart."""
        ran = now - (now if self.since is None else self.since)
        return int(self.unit.gpus) * (ran - self.kept(now) + RESTART)

    @property
    def running(self) -> Running:
        """As the product's decisions see it."""
        assert self.since is not None
        return Running(
            unit=self.unit,
            since=self.since,
            evictions=self.evictions,
            taken=self.taken,
            turn_until=self.turn_until,
        )


class Rule(Protocol):
    """Who starts, and who is taken."""

    acts_at_once: bool
    """Whether it may take jobs after every change, and not only at ticks."""

    def passes(self, now: int, shares: Shares, line: Line) -> None:
        """Time has come to ``now``; the shares have been these since the last call."""
        ...

    def start(self, simulation: "Simulation") -> None:
        """Start what may start on free devices."""
        ...

    def take(self, simulation: "Simulation") -> None:
        """Take jobs for others. Called at every tick while somebody waits."""
        ...


@dataclass(kw_only=True)
class Simulation:
    """One run."""

    jobs: list[Job]
    machines: Machines
    rule: Rule
    until: int
    tick: int = MINUTE
    tree: Tree = EQUAL
    now: int = 0
    line: Line = field(default_factory=Line)
    measures: Measures = field(default_factory=Measures)
    by_uid: dict[str, Job] = field(default_factory=dict)
    active: dict[str, Job] = field(default_factory=dict)
    """Uid -> running jobs."""
    held: dict[Tenant, int] = field(default_factory=dict)
    shares: Shares = field(init=False)
    _events: list[tuple[int, int, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.jobs.sort(key=lambda job: job.unit.created)
        self.by_uid = {job.unit.uid: job for job in self.jobs}
        self.reckon()

    def go(self) -> Measures:
        """Run to the end."""
        arrivals = [job for job in self.jobs if self.machines.holds_if_empty(job.unit.parts)]
        index, next_tick = 0, 0
        while True:
            instants = [arrivals[index].unit.created] if index < len(arrivals) else []
            instants += [self._events[0][0]] if self._events else []
            instants += [next_tick] if len(self.line) else []
            upcoming = min(instants, default=self.until)
            if upcoming >= self.until:
                break
            self._pass_time(max(self.now, upcoming))
            while index < len(arrivals) and arrivals[index].unit.created <= self.now:
                self.line.add(arrivals[index].unit)
                index += 1
            self._finish()
            self.reckon()
            self.rule.start(self)
            self.reckon()
            if len(self.line) and (self.now >= next_tick or self.rule.acts_at_once):
                self.rule.take(self)
                self.reckon()
                next_tick = (self.now // self.tick + 1) * self.tick
            self.measures.observe(self.now, self.shares, self.line)
        self._pass_time(self.until)
        self.measures.end(self.until, self.active.values())
        return self.measures

    def reckon(self) -> None:
        """The shares after a change."""
        self.shares = deserve(self.tree, self.machines.capacity, self.held, self.line.wanted)

    def has_room(self) -> bool:
        """Whether any device is free."""
        return any(self.machines.free.values())

    def begin(self, unit: Unit, placement: Placement, turn_until: int = 0) -> None:
        """A waiting unit starts."""
        job = self.by_uid[unit.uid]
        self.line.remove(unit.uid)
        self.machines.take(unit.uid, placement)
        is_first = job.version == 0
        self.measures.started(self.now, unit, is_first=is_first)
        job.nodes = tuple(node for node, _ in placement)
        job.since, job.turn_until = self.now, turn_until
        job.version += 1
        self.active[unit.uid] = job
        self.held[unit.tenant] = self.held.get(unit.tenant, 0) + int(unit.gpus)
        left = job.work - job.saved + (RESTART if job.evictions else 0)
        heappush(self._events, (self.now + left, 1, unit.uid, job.version))

    def evict(self, uid: str) -> None:
        """A running unit goes back to the line."""
        job = self.active[uid]
        self.measures.evicted(self.now, job.unit, job.cost(self.now))
        job.saved += job.kept(self.now)
        job.evictions += 1
        job.taken = (*(at for at in job.taken if at > self.now - DAY), self.now)
        self._stop(job)
        self.line.add(job.unit)

    def _stop(self, job: Job) -> None:
        uid = job.unit.uid
        del self.active[uid]
        self.machines.release(uid, job.nodes)
        self.held[job.unit.tenant] -= int(job.unit.gpus)
        job.since, job.nodes = None, ()
        job.version += 1

    def _finish(self) -> None:
        while self._events and self._events[0][0] <= self.now:
            _, _, uid, version = heappop(self._events)
            job = self.by_uid[uid]
            if job.version == version and job.since is not None:
                self.measures.finished(job.unit, job.work)
                self._stop(job)

    def _pass_time(self, now: int) -> None:
        self.rule.passes(now, self.shares, self.line)
        self.measures.pass_time(now - self.now, self.shares, self.machines.capacity)
        self.now = now


def job(uid: str, user: str, gpus: int = 1, *, at: float = 0, seconds: float = 1e9, per_node: int = 8) -> Job:
    """A job of a user. ``at`` and ``seconds``: when it comes, and how long it runs, in seconds."""
    whole, rest = divmod(gpus, per_node)
    members = () if gpus <= per_node else (*[per_node] * whole, *([rest] if rest else []))
    unit = Unit(uid=uid, tenant=Tenant(user), gpus=gpus, members=members, created=int(at * SECOND))
    return Job(unit=unit, work=int(seconds * SECOND))
