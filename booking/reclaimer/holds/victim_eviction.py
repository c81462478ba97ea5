"""From a hold to the eviction of the pods on its devices: notice, time to save, last check, eviction.

Each victim has its own deadline. It is in the notice on the pod, so a process that restarts keeps it. A
victim without notice time gets its notice by the write that prepares its comeback.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import structlog

from booking.eviction_settings import EvictionSettings
from booking.reclaimer.context import ReclaimerContext
from booking.reclaimer.evictions.comeback import on_eviction
from booking.reclaimer.evictor import Back, EvictionCause, NoComebackError, ProtectedError, TooLateError
from booking.reclaimer.holds.disruption_budgets import Budgets
from booking.reclaimer.holds.notice_due import Notice, is_due, notice_seconds
from booking.reclaimer.holds.notices import Notices, afterwards, message, notice_until
from booking.reclaimer.holds.revalidation import Revalidation
from booking.reclaimer.holds.unevictable import UnevictablePods
from booking.reclaimer.recent_requests import RecentRequests
from cluster import names
from cluster.kube.errors import StatusError, TooManyRequests
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)

REFUSED_AT_MOST: Final = 3
"""Times that the eviction of a pod is refused before other victims are sought."""


class NotNowError(Exception):
    """A victim cannot be evicted now, and is left out of the next plans; the text says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """A hold whose devices are not all free."""

    pod: Pod
    """The booked pod, with the hold on it."""
    hold: Hold
    notices: dict[str, Notice]
    """Victim's uid -> the notice that this process gave it for this hold; grows."""
    read: float | None = None
    """When the API server returned the pod in this state, if in this very pass."""


class VictimEviction:
    """Gives victims their notices and evicts them. Not thread-safe."""

    def __init__(
        self,
        context: ReclaimerContext,
        terms: EvictionSettings,
        *,
        excluded: UnevictablePods,
        budgets: Budgets,
    ) -> None:
        self._context = context
        self._clock = context.clock
        self._terms = terms
        self._excluded = excluded
        self._budgets = budgets
        self.notices: Final = Notices(context.kube, context.clock, context.write_event)
        self._recent_requests = RecentRequests(context.clock)
        self._refused: dict[str, int] = {}

    def forget_all_but(self, uids: frozenset[str]) -> None:
        """Drop what is remembered about pods that are gone."""
        self._refused = {uid: times for uid, times in self._refused.items() if uid in uids}
        self.notices.forget_all_but(uids)

    def prepare(self, victims: Iterable[Pod]) -> None:
        """Start preparing the victims that get no notice: they are likely to be evicted in this very pass."""
        for victim in victims:
            if notice_seconds(victim, self._terms) == 0:
                self._context.evictor.prepare(victim, back=self._back(victim))

    def reconcile(self, case: Case, victims: tuple[Pod, ...]) -> float | None:
        """Take one step for each victim; returns when the first of them was evicted, None if none was.

        Raises:
            NotNowError: one of them cannot be evicted now.
            ApiError: the API server could not be reached, or refused.
        """
        notified = [self._notify(case, victim) for victim in victims]
        now, monotonic = self._clock.now(), self._clock.monotonic()
        due = [
            victim
            for victim in notified
            if is_due(victim, case.notices[victim.metadata.uid], monotonic=monotonic, now=now)
            and self._recent_requests.is_due(victim.metadata.uid)
        ]
        last = Revalidation(self._context, case.pod, case.hold, read=case.read)
        if not due or (case.read is None and not last.is_valid()):
            return None
        first: float | None = None
        for victim in due:
            if not self._try_to_evict(case, victim, last):
                break
            first = last.valid_at if first is None else first
        return first

    def _back(self, victim: Pod) -> Back:
        return on_eviction(victim, is_awaited=self._context.awaited(victim.metadata.uid))

    # --- notices -------------------------------------------------------------------------------------
    def _notify(self, case: Case, victim: Pod) -> Pod:
        """Give the victim its notice, if it has notice time; returns the pod with it."""
        uid = victim.metadata.uid
        known = case.notices.get(uid) or self._notice(case, victim)
        if known.ahead:
            victim = self.notices.give(victim, known.text)
        # Its time begins once the notice is written; the notice itself does not change.
        case.notices.setdefault(uid, known)
        return victim

    def _notice(self, case: Case, victim: Pod) -> Notice:
        """The victim's notice; one that another process gave it is kept, with the remaining time."""
        now, seconds = self._clock.now(), notice_seconds(victim, self._terms)
        given = min(_aware(case.hold.at or now), now)
        until = notice_until(victim.metadata.annotation(names.NOTICE), case.pod)
        if until is None or until < given:
            until = now + timedelta(seconds=seconds)
        longest = max(self._terms.notice_seconds, self._terms.longest_notice_seconds)
        left = min(max(0.0, (until - now).total_seconds()), longest)
        over = self._clock.monotonic() + left
        return Notice(text=message(case.pod, until), given=given, over=over, ahead=left > 0)

    # --- evicting ------------------------------------------------------------------------------------
    def _try_to_evict(self, case: Case, victim: Pod, last: Revalidation) -> bool:
        """Evict one victim; False when all must be checked again."""
        uid = victim.metadata.uid
        try:
            self._evict(case, victim, last)
        except TooLateError as error:
            if case.read is not None:
                self._recent_requests.forget(
                    uid
                )  # our cache lags behind our own write: it catches up in a moment
            log.info("a pod is not evicted after all", pod=victim.key, reason=str(error))
            return False
        except ProtectedError as error:
            self._context.metrics.evictions_blocked.inc()
            self._budgets.protects(victim)
            raise self._not_now(victim, "a disruption budget protects it") from error
        except NoComebackError as error:
            raise self._not_now(victim, str(error)) from error
        except TooManyRequests:
            raise  # the API server is overloaded: another pod would fare no better
        except StatusError as error:
            self._refused[uid] = self._refused.get(uid, 0) + 1
            if self._refused[uid] < REFUSED_AT_MOST:
                raise
            self._context.failures.note("eviction", victim.key, error)
            raise self._not_now(victim, "the API server refuses its eviction") from error
        self._refused.pop(uid, None)
        self._context.metrics.terminations.labels("evicted").inc()
        log.info("a pod is evicted", pod=victim.key, uid=uid, beneficiary=case.pod.key)
        return True

    def _evict(self, case: Case, victim: Pod, last: Revalidation) -> None:
        text = case.notices[victim.metadata.uid].text
        is_notified = victim.metadata.annotation(names.NOTICE) == text
        why = EvictionCause(
            "evicted",
            afterwards(case.pod),
            self._terms.longest_grace_seconds,
            back=self._back(victim),
            others_first=True,
            notice=None if is_notified else text,
        )
        evict = partial(
            self._context.evictor.evict, victim, is_valid=last.is_valid, about_to_check=last.begin
        )
        try:
            evict(why)
        except ProtectedError:
            if not self._budgets.is_passed_over(case.pod):
                raise
            evict(replace(why, overrides_budget=True))
            self._passed_over(case, victim)
        else:
            self._budgets.served(case.pod)
        if not is_notified:
            self._context.write_event(victim, names.EVICTION_NOTICE, text)

    def _passed_over(self, case: Case, victim: Pod) -> None:
        self._context.metrics.budgets_overridden.inc()
        log.warning("a disruption budget is overridden", pod=victim.key, beneficiary=case.pod.key)
        message = (
            f"{afterwards(case.pod)} A disruption budget protects it, but has kept that pod waiting too long."
        )
        self._context.write_event(victim, names.BUDGET_OVERRIDDEN, message)

    def _not_now(self, victim: Pod, why: str) -> NotNowError:
        """Leave the victim out of the next plans; returns the error that says why."""
        self._refused.pop(victim.metadata.uid, None)
        self._excluded.add(victim.metadata.uid)
        return NotNowError(f"the pod {victim.key} cannot be evicted now: {why}")


def _aware(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
