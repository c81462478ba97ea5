"""Evicting pods without a booking that use more memory of a GPU than their share.

Only where an administrator wants it. They get the same notice as other victims; whoever uses no more than the
share before it is over may stay. Disruption budgets are never overridden, since nobody waits. Pods that have
a share together by one claim leave together: once the notice of each is over, and no budget keeps one.

A bare pod comes back without its share, whatever it asks for otherwise, so it cannot do it again. What a
controller creates in its place has the share again, and may use too much again: then it stays for ten
minutes after the last eviction, twice as long each time. That is all that is kept in memory: another leader
evicts one such pod earlier.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictions.comeback import on_eviction
from booking.controller.reclaimer.evictions.refusals import Blocker, blocker_of, is_overload, protected_by
from booking.controller.reclaimer.evictor import Back, EvictionCause, ProtectedError, TooLateError
from booking.controller.reclaimer.holds.notice_due import has_saved, notice_seconds
from booking.controller.reclaimer.holds.notices import Notices, notice, until_in
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.over_users import others
from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.kube.errors import ApiError, StatusError
from cluster.objects.device_usage import OverUser
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)

FIRST_PAUSE: Final = 600.0
LONGEST_PAUSE: Final = 6 * 3600.0
"""Seconds for which a controller's new pods are spared after it has lost one."""
REFUSED_AGAIN_AFTER: Final = 60.0
"""Seconds until an eviction is tried again that was refused."""


def notice_text(until: datetime, one: OverUser) -> str:
    """The notice. It names no amount that changes from report to report."""
    if one.pods > 1:
        more, share = f"it uses, with all pods of its claim, more of GPU {one.device}", "their share"
        return notice(until, f"{more} than {share} of {one.limit} MiB; if they use less, they stay")
    return notice(
        until,
        f"it uses more of GPU {one.device} than its share of {one.limit} MiB; if it uses less, it stays",
    )


def message(one: OverUser) -> str:
    """Why it had to leave, for its owner."""
    if one.pods > 1:
        return (
            f"The {one.pods} pods of its claim used {one.used} MiB of GPU {one.device} together, and their"
            f" share was {one.limit} MiB."
        )
    return f"This pod used {one.used} MiB of GPU {one.device}, and its share was {one.limit} MiB."


def how_it_comes_back(pod: Pod) -> Back:
    """Without its share; not at all if it wants that."""
    return "never" if on_eviction(pod) == "never" else "without-gpu"


@dataclass(frozen=True, slots=True)
class _Taken:
    """The last pod that a controller has lost."""

    at: datetime
    since: float
    """The same instant, monotonic."""
    times: int
    """How many pods in a row it has lost that it had created since the one before."""


class Replacements:
    """Which controllers' pods are spared because another one has just left. Not thread-safe."""

    def __init__(self) -> None:
        self._taken: dict[str, _Taken] = {}

    def spared_for(self, pod: Pod, monotonic: float) -> float:
        """Seconds for which it is spared; 0 if it is not."""
        last = self._last(pod)
        if last is None or not _is_younger(pod, last):
            return 0.0
        pause = exponential_backoff(last.times, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        return max(0.0, last.since + pause - monotonic)

    def note(self, pod: Pod, now: datetime, monotonic: float) -> None:
        """It leaves."""
        self._taken = {
            uid: one for uid, one in self._taken.items() if monotonic - one.since < 2 * LONGEST_PAUSE
        }
        if pod.metadata.controller:
            last = self._last(pod)
            times = 1 if last is None else last.times + _is_younger(pod, last)
            self._taken[pod.metadata.controller.uid] = _Taken(now, monotonic, times)

    def _last(self, pod: Pod) -> _Taken | None:
        controller = pod.metadata.controller
        return self._taken.get(controller.uid) if controller else None


class OverUsers:
    """Gives them notice, and evicts them. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        self._clock = context.clock
        self._terms = terms
        self._notices = Notices(context.kube, context.clock, context.write_event)
        self._recent_requests = RecentRequests(context.clock)
        self._refused: dict[str, tuple[float, Blocker]] = {}
        """Uid -> when it may be tried again, monotonic, and why it was refused."""
        self._replacements = Replacements()

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Take one step for each; a step that fails is tried again."""
        self._refused = {uid: one for uid, one in self._refused.items() if uid in snapshot.pods}
        self._notices.forget_all_but(frozenset(snapshot.pods))
        gone: set[str] = set()
        for uid, one in snapshot.over_users.items():
            pod = snapshot.pods[uid]
            view, _ = snapshot.node_snapshots[pod.spec.node_name or ""]
            together = [snapshot.pods[other] for other in sorted(others(one, view, snapshot) - gone)]
            if uid in snapshot.victims or any(map(self._is_pausing, (pod, *together))):
                continue
            try:
                if self._step(pod, one, together, snapshot):
                    gone.add(uid)
            except ProtectedError as error:
                self._context.metrics.evictions_blocked.inc()
                self._note(pod, protected_by(error.budgets, pod.metadata.namespace))
            except StatusError as error:
                self._context.failures.note("eviction of an over-user", pod.key, error)
                if not is_overload(error):
                    self._note(pod, blocker_of(error))
            except ApiError as error:
                self._context.failures.note("eviction of an over-user", pod.key, error)

    def _is_pausing(self, pod: Pod) -> bool:
        monotonic = self._clock.monotonic()
        again, _ = self._refused.get(pod.metadata.uid, (0.0, None))
        return monotonic < again or self._replacements.spared_for(pod, monotonic) > 0

    def _note(self, pod: Pod, blocker: Blocker) -> None:
        _, before = self._refused.get(pod.metadata.uid, (0.0, None))
        if before != blocker:
            text = f"This pod uses more of a GPU than its share, but {blocker.why.rstrip('.')}."
            self._context.write_event(pod, event_reasons.EVICTIONS_BLOCKED, text)
        self._refused[pod.metadata.uid] = (self._clock.monotonic() + REFUSED_AGAIN_AFTER, blocker)

    def _step(self, pod: Pod, one: OverUser, together: list[Pod], snapshot: ReclaimerSnapshot) -> bool:
        """Returns whether it leaves; ``together``: who else has the share, and does not leave yet."""
        text = self._notice(pod, one, snapshot.now)
        if not self._is_due(pod, text, snapshot.now):
            self._notices.give(pod, text)
            return False
        notices = ((each, self._notice(each, one, snapshot.now)) for each in together)
        if not all(self._is_due(each, theirs, snapshot.now) for each, theirs in notices):
            return False
        if not snapshot.knows_bookings or not self._recent_requests.is_due(pod.metadata.uid):
            return False
        for each in together:
            self._context.evictor.ask(each)
        return self._evict(pod, one, text)

    def _is_due(self, pod: Pod, text: str, now: datetime) -> bool:
        """Whether its notice is over."""
        seconds = notice_seconds(pod, self._terms)
        until = until_in(text) or now
        return not seconds or now >= until or has_saved(pod, until - timedelta(seconds=seconds), now)

    def _notice(self, pod: Pod, one: OverUser, now: datetime) -> str:
        """Its notice; one that it has already is kept, whichever process gave it."""
        seconds = notice_seconds(pod, self._terms)
        latest = now + timedelta(seconds=seconds)
        until = until_in(pod.metadata.annotation(names.NOTICE))
        # A whole second more: a notice is never too early.
        if until is not None and until <= latest + timedelta(seconds=1):
            text = notice_text(until, one)
            if text == pod.metadata.annotation(names.NOTICE):
                return text
        return notice_text(latest, one)

    def _evict(self, pod: Pod, one: OverUser, text: str) -> bool:
        has_notice = pod.metadata.annotation(names.NOTICE) == text
        why = EvictionCause(
            "overuse",
            message(one),
            self._terms.longest_grace_seconds,
            back=how_it_comes_back(pod),
            notice=None if has_notice else text,
        )
        try:
            is_valid = partial(self._still_uses_too_much, pod.metadata.uid)
            self._context.evictor.evict(pod, why, is_valid=is_valid)
        except TooLateError as error:
            log.info("a pod that used too much of a GPU is not evicted now", pod=pod.key, reason=str(error))
            return False
        self._replacements.note(pod, self._clock.now(), self._clock.monotonic())
        self._context.metrics.terminations.labels("overuse").inc()
        log.info("a pod that uses too much of a GPU is evicted", pod=pod.key, used=one.used, share=one.limit)
        return True

    def _still_uses_too_much(self, uid: str) -> bool:
        begun = self._clock.monotonic()
        again = self._context.snapshot()
        return again.knows_bookings and uid in again.over_users and self._context.is_fresh(begun)


def _is_younger(pod: Pod, last: _Taken) -> bool:
    """Whether it was created after the last one had to leave; creation is known to the second."""
    created = pod.metadata.creation_timestamp
    return created is not None and created >= last.at.replace(microsecond=0)
