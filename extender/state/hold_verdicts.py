"""What filter and bind have last said of each pod with a hold: what ``extender.verdict_lease`` publishes.

kube-scheduler retries a pod within 10 s after an error (``SchedulerError``). So if such a pod has not been
asked about for longer, kube-scheduler does not reach us, and our last answer means nothing. A pod that was
rejected (``Unschedulable``) may not be retried for minutes: what was said of it stays true until then.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.objects.hold_verdicts import BLAMING, HoldVerdict
from cluster.objects.pods import Pod, has_scheduler_error
from cluster.process.clock import Clock

ASKED_WITHIN: Final = 30.0
"""Seconds for which a verdict counts on a pod that kube-scheduler keeps retrying."""


@dataclass(frozen=True, slots=True)
class _Given:
    verdict: HoldVerdict
    at: float


class HoldVerdicts:
    """The last verdict on each pod. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._given: dict[str, _Given] = {}

    def note(self, uid: str, verdict: HoldVerdict) -> None:
        """An answer about the pod of this uid."""
        with self._lock:
            self._given[uid] = _Given(verdict, self._clock.monotonic())

    def drop(self, uid: str) -> None:
        """Nothing is kept for the pod of this uid any more."""
        with self._lock:
            self._given.pop(uid, None)

    def current(self, newest: Callable[[str], Pod | None]) -> dict[str, HoldVerdict]:
        """Pod uid -> verdict, of those that say more than kube-scheduler's own condition on the pod does.

        Args:
            newest: returns a waiting pod by its uid, None for any other.
        """
        now, published = self._clock.monotonic(), dict[str, HoldVerdict]()
        with self._lock:
            given = list(self._given.items())
        for uid, one in given:
            pod, is_recent = newest(uid), now - one.at < ASKED_WITHIN
            if pod is None:
                if not is_recent:
                    self.drop(uid)
            elif is_recent if has_scheduler_error(pod) else one.verdict not in BLAMING:
                published[uid] = one.verdict
        return published
