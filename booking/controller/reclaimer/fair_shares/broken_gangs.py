"""Gangs that have begun to start and cannot go on: they are let go whole, and wait in line again.

A gang whose pods have only holds gives them up at once. One some of whose pods have a node is given time:
the others may find devices in their turn. Then those leave, too. A gang that has run for long and lost
a pod keeps running: the new pod waits in line alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictions.comeback import on_eviction
from booking.controller.reclaimer.evictor import EvictionCause, NoComebackError, ProtectedError, TooLateError
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from cluster.decide.eviction.costs import SECOND, microseconds, work_of
from cluster.kube.errors import ApiError
from cluster.objects.gangs import Gang
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)

STARTS_WITHIN: Final = 60.0
"""Seconds that the rest of a gang has to find devices."""
RUNS_AFTER: Final = 600
"""Seconds after which a gang some pods of which run is not one that starts any more."""
WHY: Final = "its gang could not start as a whole"


@dataclass
class Start:
    """A gang at one instant, as far as it has pods that live."""

    waiting: list[Pod] = field(default_factory=list)
    """Without a hold."""
    held: list[Pod] = field(default_factory=list)
    bound: list[Pod] = field(default_factory=list)


class BrokenGangs:
    """Lets gangs go. Not thread-safe; it remembers since when each cannot start."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        self._terms = terms
        self._since: dict[Gang, float] = {}
        """Since when a gang lacks something, monotonic."""
        self._recent_requests = RecentRequests(context.clock)
        self.going: frozenset[str] = frozenset()
        """Uids of the pods that must leave."""

    def reconcile(self, snapshot: ReclaimerSnapshot, release: Callable[[Pod, str], None]) -> None:
        """One step for each gang. Args: release: drops a pod's hold, and says why."""
        now, before, self._since = self._context.clock.monotonic(), self._since, {}
        going = set[str]()
        for gang, start in broken(snapshot):
            since = self._since[gang] = before.get(gang, now)
            if start.bound and now - since < STARTS_WITHIN:
                continue
            for pod in start.held:
                self._guarded(pod, partial(release, pod, WHY))
            for pod in start.bound:
                going.add(pod.metadata.uid)
                if self._recent_requests.is_due(pod.metadata.uid):
                    self._guarded(pod, partial(self._evict, pod, gang))
        self.going = frozenset(going)

    def forget(self) -> None:
        """Nobody waits, so there is no such gang."""
        self._since, self.going = {}, frozenset()

    def _guarded(self, pod: Pod, step: Callable[[], None]) -> None:
        try:
            step()
        except ApiError as error:
            self._context.failures.note("gang", pod.key, error)

    def _evict(self, pod: Pod, gang: Gang) -> None:
        cause = EvictionCause(
            "share",
            f"Only some of the {gang.size} pods of its gang could start, so all of them wait again.",
            self._terms.longest_grace_seconds,
            back=on_eviction(pod, is_awaited=self._context.awaited(pod.metadata.uid), for_share=True),
        )
        try:
            self._context.evictor.evict(pod, cause, is_valid=partial(self._is_still_broken, gang))
        except (TooLateError, ProtectedError, NoComebackError) as error:
            log.info("a pod of a gang that cannot start stays", pod=pod.key, reason=str(error))

    def _is_still_broken(self, gang: Gang) -> bool:
        begun = self._context.clock.monotonic()
        again = {one for one, _ in broken(self._context.instant())}
        return gang in again and self._context.is_fresh(begun)


def broken(snapshot: ReclaimerSnapshot) -> Iterator[tuple[Gang, Start]]:
    """The gangs that have begun to start, and lack pods or devices for some of them."""
    if not snapshot.gives_turns:
        return
    for gang, pods in snapshot.gangs.items():
        start, booked = Start(), 0
        for pod in pods:
            uid, is_held = pod.metadata.uid, pod.metadata.uid in snapshot.holds
            if uid in snapshot.cover:
                booked += 1  # it gets its devices by the booking, whatever the others do
                continue
            them = start.bound if pod.spec.node_name else start.held if is_held else start.waiting
            them.append(pod)
        begun = len(start.held) + len(start.bound)
        lacks = begun + booked < gang.size and (start.waiting or start.held)
        if begun and lacks and not any(_has_run(pod, snapshot) for pod in start.bound):
            yield gang, start


def _has_run(pod: Pod, snapshot: ReclaimerSnapshot) -> bool:
    now = microseconds(snapshot.now)
    return now - work_of(pod).since(now) >= RUNS_AFTER * SECOND
