"""A user who does not wait for an evicted pod: creates one of that name as soon as possible.

They have a watch of their own, of pods that have ended alone: what takes the place of a victim is
there two calls after the victim's end.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from cluster.process.clock import SystemClock
from devcluster.demo.pod_status import is_evicted
from tests.long.churn.ground import NAMESPACE

RACES: Final = 4
"""At a time."""
ENDED: Final = "status.phase=Failed"


class Racing:
    """All races; a handler for a reflector."""

    def __init__(self, kube: Kube, *, wants: Callable[[Pod], bool], create: Callable[[str], bool]) -> None:
        """Args: wants: whether the user of a victim races; create: a pod, False where there is one."""
        self._reflector = Reflector(
            kube, PODS, self, SystemClock(), namespace=NAMESPACE, field_selector=ENDED
        )
        self._wants = wants
        self._create = create
        self._pool = ThreadPoolExecutor(RACES)
        self.begun: set[str] = set()
        """Uids of victims whose user has tried."""
        self.won: set[str] = set()
        """Uids of victims whose user was there first."""

    def run(self, stop: threading.Event) -> None:
        """Race until ``stop`` is set."""
        self._reflector.run(stop)
        self._pool.shutdown()

    # --- the reflector's events ------------------------------------------------------------------------
    def replace(self, _items: Sequence[Pod], _version: str, /) -> None:
        """All that have ended: who has gone meanwhile is not raced for any more."""

    def upsert(self, _pod: Pod, /) -> None:
        """One has ended: there can be none of its name yet."""

    def remove(self, pod: Pod, /) -> None:
        """One is gone: a victim's user may be quicker than we."""
        if is_evicted(pod) and self._wants(pod):
            self.begun.add(pod.metadata.uid)
            self._pool.submit(self._race, pod)

    # --- a race ------------------------------------------------------------------------------------------
    def _race(self, pod: Pod) -> None:
        with suppress(ApiError):
            if self._create(pod.metadata.name):
                self.won.add(pod.metadata.uid)
