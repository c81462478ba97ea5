"""From a hold to the eviction of the pods on its devices: notice, time to save, last check, eviction.

Each victim has its own deadline. It is in the notice on the pod, so a process that restarts keeps it. A
victim without notice time gets its notice by the write that prepares its comeback.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import structlog

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictions.comeback import on_eviction
from booking.controller.reclaimer.evictions.refusals import (
    Blocker,
    blocker_of,
    is_overload,
    protected_by,
    sentence,
)
from booking.controller.reclaimer.evictor import (
    Back,
    EvictionCause,
    NoComebackError,
    ProtectedError,
    Reason,
    TooLateError,
)
from booking.controller.reclaimer.holds.disruption_budgets import Block, ends, since
from booking.controller.reclaimer.holds.notice_due import Notice, is_due, notice_seconds
from booking.controller.reclaimer.holds.notices import Notices, afterwards, message, notice_until
from booking.controller.reclaimer.holds.revalidation import Revalidation
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.eviction.settings import EvictionSettings
from cluster import event_reasons, names
from cluster.kube.errors import NotFound, StatusError
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod

T = TypeVar("T")

log = structlog.get_logger(__name__)

REFUSED_AT_MOST: Final = 3
"""Times that the eviction of a pod is refused before other victims are sought."""


class NotNowError(Exception):
    """A victim cannot be evicted now; the text says why."""

    def __init__(self, victim: Pod, blocker: Blocker, budgets: tuple[DisruptionBudget, ...] = ()) -> None:
        super().__init__(f"the pod {victim.key} cannot be evicted now: {blocker.why}")
        self.victim = victim
        self.blocker = blocker
        self.budgets = budgets


@dataclass(frozen=True, slots=True)
class Case:
    """A hold whose devices are not all free."""

    pod: Pod
    """The booked pod, with the hold on it."""
    hold: Hold
    notices: dict[str, Notice]
    """Victim's uid -> the notice that this process gave it for this hold; grows."""
    checked: set[str]
    """Uids of the victims that may be evicted, as the API server has said for this hold; grows."""
    block: Block | None = None
    """Budgets that keep some of its victims for a while."""
    read: float | None = None
    """When the API server returned the pod in this state, if in this very pass."""

    @property
    def is_booked(self) -> bool:
        """Whether the devices are kept for a booked pod; else for one whose turn it is."""
        return self.hold.need == "booking"

    @property
    def cause(self) -> Reason:
        """Why the victims leave."""
        return "evicted" if self.is_booked else "share"


class VictimEviction:
    """Gives victims their notices and evicts them. Not thread-safe."""

    def __init__(
        self,
        context: ReclaimerContext,
        terms: EvictionSettings,
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._terms = terms
        seconds = terms.budget_override_seconds
        self._limit = None if seconds is None else timedelta(seconds=seconds)
        self.notices: Final = Notices(context.kube, context.clock, context.write_event)
        self._recent_requests = RecentRequests(context.clock)
        self._refused: dict[str, int] = {}

    def forget_all_but(self, uids: frozenset[str]) -> None:
        """Drop what is remembered about pods that are gone."""
        self._refused = {uid: times for uid, times in self._refused.items() if uid in uids}
        self.notices.forget_all_but(uids)

    def prepare(self, victims: Iterable[Pod], *, is_booked: bool = True) -> None:
        """Start preparing the victims that get no notice: they are likely to be evicted in this very pass."""
        for victim in victims:
            if notice_seconds(victim, self._terms) == 0:
                back = self._back(victim, is_booked=is_booked)
                reason: Reason = "evicted" if is_booked else "share"
                self._context.evictor.prepare(victim, back=back, reason=reason)

    def reconcile(self, case: Case, victims: tuple[Pod, ...]) -> float | None:
        """Take one step for each victim; returns when the first of them was evicted, None if none was.

        Raises:
            NotNowError: one of them cannot be evicted now.
            ApiError: the API server could not be reached, or refused.
        """
        if case.block is None and not self._ask(case, victims):
            return None
        notified = [self._refusable(v, partial(self._notify, case, v)) for v in victims]
        now, monotonic = self._clock.now(), self._clock.monotonic()
        if case.block is not None and now < case.block.until:
            return None
        due = [
            victim
            for victim in notified
            if is_due(victim, case.notices[victim.metadata.uid], monotonic=monotonic, now=now)
            and self._recent_requests.is_due(victim.metadata.uid)
        ]
        last = Revalidation(self._context, case.pod, case.hold, read=case.read)
        if not due or (case.read is None and not last.is_valid()):
            if not last.is_seen():
                for victim in due:  # nothing was requested: our cache catches up in a moment
                    self._recent_requests.forget(victim.metadata.uid)
            return None
        first: float | None = None
        for victim in due:
            if not self._try_to_evict(case, victim, last):
                break
            first = last.valid_at if first is None else first
        return first

    def _back(self, victim: Pod, *, is_booked: bool) -> Back:
        is_awaited = self._context.awaited(victim.metadata.uid)
        return on_eviction(victim, is_awaited=is_awaited, for_share=not is_booked)

    def _ask(self, case: Case, victims: tuple[Pod, ...]) -> bool:
        """Find out whether all may be evicted; False if that was asked a moment ago.

        Before a notice is given, and before the first of several leaves: the others might not follow. A
        single victim without notice is not asked about, since its eviction tells as much.
        """
        if len(victims) == 1 and notice_seconds(victims[0], self._terms) == 0:
            return True
        for victim in victims:
            uid = victim.metadata.uid
            if uid in case.checked:
                continue
            if not self._recent_requests.is_due(("ask", uid)):
                return False
            self._refusable(victim, partial(self._context.evictor.ask, victim))
            case.checked.add(uid)
        return True

    # --- notices -------------------------------------------------------------------------------------
    def _notify(self, case: Case, victim: Pod) -> Pod:
        """Give the victim its notice, if it has notice time; returns the pod with it."""
        uid = victim.metadata.uid
        until = case.block.until if case.block else None
        known = case.notices.get(uid)
        if known is None or known.blocked_until != until:
            known = self._notice(case, victim)
        if known.ahead:
            victim = self.notices.give(victim, known.text)
        # Its time begins once the notice is written; the notice changes only with the budgets in its way.
        case.notices[uid] = known
        return victim

    def _notice(self, case: Case, victim: Pod) -> Notice:
        """The victim's notice; one that another process gave it is kept, with the remaining time."""
        now, seconds = self._clock.now(), notice_seconds(victim, self._terms)
        given = min(_aware(case.hold.at or now), now)
        until = notice_until(victim.metadata.annotation(names.NOTICE), case.pod, is_booked=case.is_booked)
        if until is None or until < given:
            until = now + timedelta(seconds=seconds)
        longest = max(self._terms.notice_seconds, self._terms.longest_notice_seconds)
        left = min(max(0.0, (until - now).total_seconds()), longest)
        block = case.block
        if block is not None and block.until > until:
            until, left = block.until, max(0.0, (block.until - now).total_seconds())
        protected = block.protected.get(victim.metadata.uid) if block else None
        return Notice(
            text=message(case.pod, until, is_booked=case.is_booked, protected=protected),
            given=given,
            over=self._clock.monotonic() + left,
            ahead=left > 0,
            blocked_until=block.until if block else None,
        )

    # --- evicting ------------------------------------------------------------------------------------
    def _try_to_evict(self, case: Case, victim: Pod, last: Revalidation) -> bool:
        """Evict one victim; False when all must be checked again."""
        uid = victim.metadata.uid
        try:
            self._refusable(victim, partial(self._evict, case, victim, last))
        except TooLateError as error:
            if case.read is not None:
                self._recent_requests.forget(
                    uid
                )  # our cache lags behind our own write: it catches up in a moment
            log.info("a pod is not evicted after all", pod=victim.key, reason=str(error))
            return False
        self._refused.pop(uid, None)
        self._context.metrics.terminations.labels(case.cause).inc()
        if not case.is_booked:
            self._context.taken(victim)
        log.info("a pod is evicted", pod=victim.key, uid=uid, beneficiary=case.pod.key)
        return True

    def _refusable(self, victim: Pod, step: Callable[[], T]) -> T:
        """Take one step towards an eviction, which may be refused by whatever and with whatever code.

        Raises:
            NotNowError: a budget protects the victim, or the API server has refused a few times.
            ApiError: it was refused for the first time, or not answered.
        """
        try:
            return step()
        except ProtectedError as error:
            self._context.metrics.evictions_blocked.inc()
            self._refused.pop(victim.metadata.uid, None)
            blocker = protected_by(error.budgets, victim.metadata.namespace)
            raise NotNowError(victim, blocker, error.budgets) from error
        except NoComebackError as error:
            raise NotNowError(victim, Blocker(str(error))) from error
        except StatusError as error:
            if isinstance(error, NotFound) or is_overload(error):
                raise
            times = self._refused[victim.metadata.uid] = self._refused.get(victim.metadata.uid, 0) + 1
            if times < REFUSED_AT_MOST:
                raise
            self._context.failures.note("eviction", victim.key, error)
            self._context.metrics.evictions_refused.inc()
            del self._refused[victim.metadata.uid]
            raise NotNowError(victim, blocker_of(error)) from error

    def _evict(self, case: Case, victim: Pod, last: Revalidation) -> None:
        text = case.notices[victim.metadata.uid].text
        is_notified = victim.metadata.annotation(names.NOTICE) == text
        why = EvictionCause(
            case.cause,
            afterwards(case.pod, is_booked=case.is_booked),
            self._terms.longest_grace_seconds,
            back=self._back(victim, is_booked=case.is_booked),
            others_first=True,
            notice=None if is_notified else text,
        )
        evict = partial(
            self._context.evictor.evict, victim, is_valid=last.is_valid, about_to_check=last.begin
        )
        try:
            evict(why)
        except ProtectedError as error:
            until = ends(since(case.pod), self._limit) if case.is_booked else None
            if until is None or self._clock.now() < until:
                raise
            evict(replace(why, overrides_budget=True))
            self._overridden(case, victim, protected_by(error.budgets, victim.metadata.namespace))
        if not is_notified:
            self._context.write_event(victim, event_reasons.EVICTION_NOTICE, text)

    def _overridden(self, case: Case, victim: Pod, blocker: Blocker) -> None:
        self._context.metrics.budgets_overridden.inc()
        log.warning(
            "a disruption budget is overridden",
            pod=victim.key,
            uid=victim.metadata.uid,
            budgets=blocker.budgets,
            beneficiary=case.pod.key,
        )
        why = f"{sentence(blocker.why)}, but has kept that pod waiting for too long."
        self._context.write_event(victim, event_reasons.BUDGET_OVERRIDDEN, f"{afterwards(case.pod)} {why}")


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
