"""Would a pod be accepted again as it would come back? Asked when it leaves, or aside a moment before.

Asking changes nothing: the pod is read whole, and what would come back for it is created in a dry run.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from booking.reclaimer.evictions.api_calls import Calls, read
from booking.reclaimer.evictions.comeback import is_owned
from booking.reclaimer.evictions.replacement_pod import replacement_pod
from booking.reclaimer.evictor import DECIDED_WITHIN, Back, DryRunError, Reason
from booking.reclaimer.executor import Executor
from cluster.decide.ledger.resource_versions import is_older
from cluster.kube.errors import BadRequest, Forbidden, ServerError, StatusError, Unprocessable
from cluster.kube.resources import WholePod
from cluster.objects.pods import Pod, is_terminating
from cluster.process.clock import Clock

Json = dict[str, Any]

log = structlog.get_logger(__name__)

REHEARSALS: Final = 10
"""Times that a dry run which fails is tried before the pod leaves all the same."""
MOST_AHEAD: Final = 4
"""Pods that are asked about ahead in one pass; about all others when their turn comes."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What was found: the pod with nothing left out, what comes back for it, and the answer to that."""

    whole: WholePod
    body: Json
    refused: StatusError | None = None
    """The API server's no, or that it could not say; None where it would accept it."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A question that is on its way."""

    way: tuple[Back, Reason]
    begun: float
    answer: Callable[[], DryRun | None]


class DryRuns:
    """Asks, and keeps for a moment what was asked ahead. For one thread.

    For longer than a pass: the hold that was written meanwhile may have been refused, and is written again.
    """

    def __init__(self, calls: Calls, clock: Clock, executor: Executor) -> None:
        self._calls = calls
        self._clock = clock
        self._executor = executor
        self._ahead: dict[str, _Ahead] = {}
        self._unanswered: Counter[str] = Counter()
        """Uid -> dry runs in a row to which nobody had an answer."""

    def begin(self, pod: Pod, *, back: Back, reason: Reason) -> None:
        """Ask about a pod that is likely to leave in a moment, while other things are asked."""
        uid = pod.metadata.uid
        self._ahead = {uid: ahead for uid, ahead in self._ahead.items() if self._is_fresh(ahead)}
        if uid not in self._ahead and len(self._ahead) < MOST_AHEAD:

            def ask() -> DryRun | None:
                whole = self._calls.whole(pod.metadata)
                is_left = whole is None or is_terminating(read(whole)) or is_owned(read(whole))
                return None if whole is None or is_left else self.ask(whole, back=back, reason=reason)

            self._ahead[uid] = _Ahead((back, reason), self._clock.monotonic(), self._executor(ask))

    def begun(self, pod: Pod, *, back: Back, reason: Reason) -> DryRun | None:
        """What was asked ahead, waited for; None where that is no answer for now. It is had once.

        Raises:
            ApiError: the API server could not be asked.
        """
        ahead = self._ahead.pop(pod.metadata.uid, None)
        if ahead is None or ahead.way != (back, reason):
            return None
        found = ahead.answer()
        is_old = found is None or not self._is_fresh(ahead) or is_older(found.whole.metadata, pod.metadata)
        return None if is_old else found

    def _is_fresh(self, ahead: _Ahead) -> bool:
        return self._clock.monotonic() - ahead.begun <= DECIDED_WITHIN

    def ask(self, whole: WholePod, *, back: Back, reason: Reason) -> DryRun:
        """Try it out now; touches nothing of this object, so that any thread may do it.

        Raises:
            ApiError: the API server could not be asked.
        """
        body = replacement_pod(whole, back=back, reason=reason)
        try:
            self._calls.rehearse(body)
        except (BadRequest, Forbidden, ServerError, Unprocessable) as error:
            return DryRun(whole, body, error)
        return DryRun(whole, body)

    def doubt(self, whole: WholePod, error: ServerError) -> None:
        """Nobody can say whether the pod would be accepted again: that is no reason to keep a GPU for ever.

        Raises:
            RehearsalError: it is worth another try.
        """
        uid = whole.metadata.uid
        self._unanswered[uid] += 1
        if self._unanswered[uid] < REHEARSALS:
            raise DryRunError(error.request, error.message) from error
        log.warning("the dry run of a comeback was not answered", pod=whole.metadata.name, error=str(error))

    def answered(self, uid: str) -> None:
        """The API server has said something, or is not asked any more."""
        self._unanswered.pop(uid, None)

    def forget_all_but(self, wanted: frozenset[str]) -> None:
        """All others need not leave any more."""
        self._unanswered = Counter({uid: times for uid, times in self._unanswered.items() if uid in wanted})
