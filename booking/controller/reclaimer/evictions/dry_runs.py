"""Whether the API server would accept the replacement of a pod: checked at its eviction, or just before.

The check changes nothing: the complete pod is read, and its replacement is created in a dry run.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from booking.controller.gpu_stripping import NOTHING, named_gpu_resources
from booking.controller.reclaimer.evictions.api_calls import Calls, read
from booking.controller.reclaimer.evictions.replacement_pod import replacement_pod
from booking.controller.reclaimer.evictor import DECIDED_WITHIN, Back, DryRunError, Reason
from booking.controller.reclaimer.executor import Executor
from cluster.decide.ledger.resource_versions import is_older
from cluster.kube.errors import Conflict, ServerError, StatusError, TooManyRequests, Unauthorized
from cluster.kube.resources import WholePod
from cluster.objects.pods import Pod, is_terminating
from cluster.process.clock import Clock

Json = dict[str, Any]

log = structlog.get_logger(__name__)

DRY_RUN_ATTEMPTS: Final = 10
"""Attempts of a failing dry run after which the pod is evicted without one."""
MOST_AHEAD: Final = 4
"""Pods whose dry run is started ahead in one pass; for all others it runs at their eviction."""
SPARED_FOR: Final = 600.0
"""Seconds for which it is remembered that a pod was spared because its replacement was refused."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result: the complete pod, its replacement, and the API server's answer to that."""

    whole: WholePod
    body: Json
    refused: StatusError | None = None
    """The API server's refusal or failure; None where it would accept the replacement."""

    @property
    def is_unanswered(self) -> bool:
        """Whether another try may fare better: the server failed, has too much to do, or lost a race."""
        return isinstance(self.refused, Conflict | ServerError | TooManyRequests)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A dry run whose answer has not been asked for yet."""

    back_and_reason: tuple[Back, Reason]
    begun: float
    answer: Callable[[], DryRun | None]


class DryRuns:
    """Makes dry runs, and keeps for a moment the results of those started ahead. Not thread-safe.

    For longer than a pass: the write of the hold may have been refused meanwhile, and is tried again.
    """

    def __init__(
        self, calls: Calls, clock: Clock, executor: Executor, is_left_to_controller: Callable[[Pod], bool]
    ) -> None:
        """Args: is_left_to_controller: whether a pod needs no replacement of ours."""
        self._is_left_to_controller = is_left_to_controller
        self._calls = calls
        self._clock = clock
        self._executor = executor
        self._ahead: dict[str, _Ahead] = {}
        self._unanswered: Counter[str] = Counter()
        """Uid -> consecutive dry runs that failed without an answer."""
        self._spared: dict[str, float] = {}
        """Uid -> when it was spared because its replacement was refused; monotonic seconds."""

    def begin(self, pod: Pod, *, back: Back, reason: Reason) -> None:
        """Start the dry run for a pod that is likely to be evicted soon, in the background."""
        uid = pod.metadata.uid
        self._ahead = {uid: ahead for uid, ahead in self._ahead.items() if self._is_fresh(ahead)}
        if uid not in self._ahead and len(self._ahead) < MOST_AHEAD:

            def ask() -> DryRun | None:
                whole = self._calls.whole(pod.metadata)
                if whole is None or is_terminating(read(whole)) or self._is_left_to_controller(read(whole)):
                    return None
                return self.ask(whole, back=back, reason=reason)

            self._ahead[uid] = _Ahead((back, reason), self._clock.monotonic(), self._executor(ask))

    def begun(self, pod: Pod, *, back: Back, reason: Reason) -> DryRun | None:
        """Wait for the result of a dry run started ahead; None where it does not apply now. Consumes it.

        Raises:
            ApiError: the API server could not be asked.
        """
        ahead = self._ahead.pop(pod.metadata.uid, None)
        if ahead is None or ahead.back_and_reason != (back, reason):
            return None
        found = ahead.answer()
        is_old = found is None or not self._is_fresh(ahead) or is_older(found.whole.metadata, pod.metadata)
        return None if is_old else found

    def _is_fresh(self, ahead: _Ahead) -> bool:
        return self._clock.monotonic() - ahead.begun <= DECIDED_WITHIN

    def ask(self, whole: WholePod, *, back: Back, reason: Reason) -> DryRun:
        """Make the dry run now; uses no state of this object, so any thread may call it.

        What a LimitRange gives to a pod that comes back without a GPU shows in the answer, and is 0 then.

        Raises:
            ApiError: the API server could not be asked.
        """
        zero: frozenset[str] = NOTHING
        while True:
            body = replacement_pod(whole, back=back, reason=reason, zero=zero)
            try:
                pod = self._calls.dry_run(body)
            except Unauthorized:
                raise
            except StatusError as error:  # any code: a webhook chooses its own
                return DryRun(whole, body, error)
            given = named_gpu_resources(msgspec.to_builtins(pod.spec)) if back == "without-gpu" else NOTHING
            if given <= zero:
                return DryRun(whole, body)
            zero |= given

    def is_to_be_spared(self, uid: str) -> bool:
        """Whether other victims come first, since its replacement is refused: once within ``SPARED_FOR``.

        When it is chosen again there is no other, and a pod cannot keep a GPU because it could not come back.
        """
        now = self._clock.monotonic()
        self._spared = {one: at for one, at in self._spared.items() if now - at < SPARED_FOR}
        is_first = uid not in self._spared
        self._spared.setdefault(uid, now)
        return is_first

    def count_unanswered(self, whole: WholePod, error: StatusError) -> None:
        """Count a dry run without an answer: after a few the pod is evicted without one.

        A pod that cannot be checked must not keep a GPU indefinitely.

        Raises:
            DryRunError: it is worth another try.
        """
        uid = whole.metadata.uid
        self._unanswered[uid] += 1
        if self._unanswered[uid] < DRY_RUN_ATTEMPTS:
            raise DryRunError(error.request, error.message) from error
        log.warning("the dry run of a comeback was not answered", pod=whole.metadata.name, error=str(error))

    def answered(self, uid: str) -> None:
        """Reset the count: the API server has answered, or the dry run is not needed any more."""
        self._unanswered.pop(uid, None)

    def forget_all_but(self, wanted: frozenset[str]) -> None:
        """Drop the counts of all other pods: they need not leave any more."""
        self._unanswered = Counter({uid: times for uid, times in self._unanswered.items() if uid in wanted})
