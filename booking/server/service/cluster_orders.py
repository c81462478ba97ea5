"""Administrators' orders that other components carry out: evictions, GPUs out of use. Part of the service."""

from booking.principals import Principal
from booking.server.service import cordoning, evicting
from booking.server.service.context import GpuOrder, PodToEvict, ServiceContext
from booking.server.service.idempotency import Key


class ClusterOrders:
    """Orders that are written on objects of the cluster; the database keeps only their audit."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def evict(self, who: Principal, namespace: str, pod: str, reason: str, *, key: Key | None = None) -> None:
        """Evict a pod by order, booked or not: it gets notice at once, and comes back by its policy.

        Raises:
            NotAllowedError: the caller is not an administrator.
            RefusedError: there is no reason, or the pod is never evicted by order: a DaemonSet's, the
                system's.
            UnknownPodError: there is no such pod.
            ClusterError: the API server does not answer; the audit shows whether the pod will be evicted.
            KeyReusedError: the key was used for another request.
        """
        evicting.evict(self._context, who, namespace, pod, reason=reason, key=key)

    def dry_run_evict(self, who: Principal, namespace: str, pod: str, reason: str) -> PodToEvict:
        """The pod that ``evict`` would evict; nothing is written on it or audited.

        Raises:
            NotAllowedError, RefusedError, UnknownPodError, ClusterError: as for ``evict``.
        """
        return evicting.dry_run(self._context, who, namespace, pod, reason=reason)

    def order_gpu(
        self,
        who: Principal,
        node: str,
        gpu: str,
        *,
        order: GpuOrder,
        reason: str,
        key: Key | None = None,
        dry_run: bool = False,
    ) -> str:
        """Take a GPU out of use for new pods, give it back, or mark it as repaired; returns its UUID.

        A pod that holds it keeps it. ``gpu`` is a UUID, of a MIG device too, or a GPU's number.

        Raises:
            NotAllowedError: the caller is not an administrator.
            RefusedError: there is no reason.
            UnknownGpuError: there is no such GPU, or no such node.
            ClusterError: the API server does not answer; the order is in the audit.
            KeyReusedError: the key was used for another request.
        """
        place = (node, gpu)
        return cordoning.order_gpu(self._context, who, place, order, reason=reason, key=key, dry_run=dry_run)
