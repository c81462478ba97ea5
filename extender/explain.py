"""Tells a waiting pod why it waits, where kube-scheduler cannot.

The scheduler asks an extender only about nodes that its own filters leave: for a pod that is too big for
every node, or while the cluster is full, it asks nobody and the pod's event speaks of "Insufficient
nvidia.com/gpu". Here the sentence is written as an Event, once per pod and sentence (an Event wakes no
scheduler, as a change of the pod would). Runs in its own thread, started by ``__main__``.
"""

import threading
from collections.abc import Callable
from typing import Final

from cluster import names
from cluster.decide.explain import why_waiting
from cluster.decide.wish import wish_of
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.runtime.clock import Clock
from extender.state import ClusterState, Readiness

EVERY: Final = 2.0
"""Seconds between two looks."""

Tell = Callable[[Pod, str, str], None]
"""``(pod, reason, sentence)``: write an Event on the pod; never raises."""


class Explain:
    """Looks after pods that wait."""

    def __init__(self, state: ClusterState, clock: Clock, tell: Tell, obstacle: Readiness) -> None:
        self._state = state
        self._clock = clock
        self._tell = tell
        self._obstacle = obstacle
        self._told: dict[str, set[str]] = {}

    def run(self, stop: threading.Event) -> None:
        """Look again and again until told to stop."""
        while not self._clock.wait(stop, EVERY):
            self.look()

    def look(self) -> None:
        """One round over all waiting pods; says nothing while the picture cannot be trusted."""
        if self._obstacle():
            return
        with self._state.locked() as ledger:
            waiting = dict(self._state.waiting)
            views = ledger.views(ledger.nodes()) if waiting else []
        self._told = {uid: told for uid, told in self._told.items() if uid in waiting}
        for uid, pod in waiting.items():
            if not _was_turned_down(pod):
                continue
            try:
                sentence = why_waiting(wish_of(pod), views)
            except QuantityError:
                continue
            told = self._told.setdefault(uid, set())
            if sentence and sentence not in told:
                told.add(sentence)
                self._tell(pod, names.WAITING_FOR_GPU, sentence)


def _was_turned_down(pod: Pod) -> bool:
    """Whether the scheduler has tried the pod and found no node: before that there is nothing to tell."""
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and condition.reason == "Unschedulable"
        for condition in pod.status.conditions or ()
    )
