"""The Lease by which the extender that leads shows that it answers, and what it last said of held pods.

The reclaimer reads it: no node is to blame while the extender is dead, hangs, is behind or does not lead
(law L3, ADR 77). It is renewed every two seconds while that is not so, and released as soon as it is.
"""

from collections.abc import Mapping
from typing import Final

import structlog

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.node_lease import LeaseRenewer
from cluster.objects.hold_verdicts import encode_verdicts
from cluster.process.clock import Clock
from extender.leadership import Leads
from extender.state.cluster_state import ClusterState, Readiness

log = structlog.get_logger(__name__)

EVERY: Final = 2.0
"""Seconds between two renewals."""
DURATION_SECONDS: Final = 10
"""Seconds after which another extender takes over a Lease that is not renewed."""


class VerdictLease:
    """Keeps the Lease. ``__main__`` runs ``reconcile`` periodically, and ``release`` at the end."""

    def __init__(
        self,
        kube: Kube,
        state: ClusterState,
        clock: Clock,
        *,
        namespace: str,
        holder: str,
        leads: Leads,
        unready_reason: Readiness,
    ) -> None:
        """Nothing is written yet.

        Args:
            kube: the API server.
            state: the pods with a hold, and the last verdicts on them.
            clock: for the renewals.
            namespace: the Lease's namespace.
            holder: our identity, a new one for every start of a process.
            leads: whether we may bind.
            unready_reason: why the verbs answer nothing; None if they do.
        """
        self._state = state
        self._leads = leads
        self._unready_reason = unready_reason
        self._renewer = LeaseRenewer(
            kube,
            clock,
            name=names.VERDICT_LEASE,
            holder=holder,
            namespace=namespace,
            duration=DURATION_SECONDS,
            every=EVERY,
            annotations=self._annotations,
        )

    def reconcile(self) -> None:
        """Renew the Lease with the present verdicts, or release it if we do not decide now."""
        try:
            if self._unready_reason() is None and self._leads():
                self._renewer.renew()
            else:
                self._renewer.release()
        except ApiError as error:
            log.warning("the Lease with verdicts cannot be written, trying again", error=str(error))

    def release(self) -> None:
        """Release the Lease for good. Never raises."""
        self._renewer.release_lease()

    def _annotations(self) -> Mapping[str, str | None]:
        return {names.HOLD_VERDICTS: encode_verdicts(self._state.hold_verdicts.current(self._state.newest))}
