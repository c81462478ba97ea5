"""Resolves assumed binds whose event does not arrive: reads the pod, then confirms the bind or takes it back.

Without this, a Binding whose answer was lost, or whose pod was deleted at the wrong moment, would hold its
devices indefinitely. ``__main__`` runs it periodically in a thread of its own.
"""

from typing import Final

import structlog

from cluster.decide.ledger import AssumedBind
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from extender.binding.bind_outcome import bind_outcome
from extender.binding.keyed_lock import KeyedLock
from extender.state.cluster_state import ClusterState

EVERY: Final = 1.0
"""Seconds between two rounds."""
ANSWERED: Final = 2.0
"""Seconds to wait for an answer: meanwhile a bind of the same pod waits for us."""
ASK_AFTER: Final = 5.0
"""Seconds without its event after which a bind is checked with the API server."""


class AssumedBinds:
    """Finds out the outcome of binds whose event does not arrive."""

    def __init__(self, kube: Kube, state: ClusterState, clock: Clock, keyed_lock: KeyedLock) -> None:
        self._kube = kube
        self._state = state
        self._clock = clock
        self._keyed_lock = keyed_lock
        self._noticed: dict[str, tuple[AssumedBind, float]] = {}
        self._log = structlog.get_logger(__name__)

    def reconcile(self) -> None:
        """One round over all assumed binds."""
        now = self._clock.monotonic()
        with self._state.locked() as ledger:
            assumed = ledger.assumed
        self._noticed = {uid: self._since(uid, assumption, now) for uid, assumption in assumed.items()}
        for uid, (assumption, since) in self._noticed.items():
            if now - since >= ASK_AFTER:
                # A bind of the pod that is in progress knows more than we would find out: leave it.
                with self._keyed_lock.held(uid, within=0) as is_held:
                    if is_held:
                        self._resolve(uid, assumption)

    def _since(self, uid: str, assumption: AssumedBind, now: float) -> tuple[AssumedBind, float]:
        known = self._noticed.get(uid)
        return known if known and known[0] is assumption else (assumption, now)

    def _resolve(self, uid: str, assumption: AssumedBind) -> None:
        meta = assumption.pod.metadata
        try:
            pod: Pod | None = self._kube.get(PODS, meta.name, namespace=meta.namespace, within=ANSWERED)
        except NotFound:
            pod = None
        except ApiError as error:
            # While the outcome is unknown, the bind stays assumed (law L6).
            self._log.warning(
                "an assumed bind cannot be checked now", pod=assumption.pod.key, error=str(error)
            )
            return
        what = bind_outcome(pod, assumption.pod)
        with self._state.locked() as ledger:
            if ledger.assumption(uid) is not assumption:
                return  # seen, or decided again, while we read the pod
            if what == "never":
                ledger.forget_assumed(uid)
            if what != "wait" and pod is not None and pod.metadata.uid == uid:
                # Also for a pod that has ended: a rejection by its kubelet concerns the node.
                self._state.of(PODS).upsert(pod)
        if what != "wait":
            self._log.info("an assumed bind is resolved", pod=assumption.pod.key, outcome=what)
