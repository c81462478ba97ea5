"""The cache of pods that kubelets rejected, kept by a reflector of failed pods of our scheduler.

Most failed pods do not matter here (they ran, or a controller replaces them): those are not cached.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from booking.controller.reclaimer.evictions.rejected_pod import Verdict, verdict
from cluster.objects.failed_pods import FailedPod
from cluster.objects.pods import is_terminating
from cluster.process.clock import Clock


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A pod that a kubelet rejected, and what becomes of it."""

    pod: FailedPod
    verdict: Verdict
    since: float
    """Monotonic seconds: when it was first seen like this."""


class FailedPodCache:
    """Rejected pods that are not terminating yet. Thread-safe; the handler of their reflector."""

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        """Args: on_change: called after each change. It must return soon and must not raise."""
        self._clock: Final = clock
        self._on_change = on_change
        self._lock = threading.Lock()
        self._rejected: dict[str, RejectedPod] = {}

    @property
    def rejected(self) -> tuple[RejectedPod, ...]:
        """All rejected pods, in the order in which they were first seen."""
        with self._lock:
            return tuple(sorted(self._rejected.values(), key=lambda one: one.since))

    def replace(self, items: Sequence[FailedPod], _version: str, /) -> None:
        """Replace all failed pods."""
        with self._lock:
            known, self._rejected = self._rejected, {}
            for pod in items:
                self._put(pod, known)
        self._on_change()

    def upsert(self, pod: FailedPod, /) -> None:
        """Store a pod that has failed, or has changed since."""
        with self._lock:
            self._put(
                pod, {pod.metadata.uid: one} if (one := self._rejected.pop(pod.metadata.uid, None)) else {}
            )
        self._on_change()

    def remove(self, pod: FailedPod, /) -> None:
        """Remove a failed pod that is gone."""
        with self._lock:
            self._rejected.pop(pod.metadata.uid, None)
        self._on_change()

    def _put(self, pod: FailedPod, known: dict[str, RejectedPod]) -> None:
        found = verdict(pod)
        if found == "not ours" or is_terminating(pod):
            return
        uid = pod.metadata.uid
        since = known[uid].since if uid in known else self._clock.monotonic()
        self._rejected[uid] = RejectedPod(pod, found, since)
