"""Orders to evict a pod, written on the pod: the controller carries them out."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import structlog

from booking.server.errors import ClusterError, UnknownPodError
from booking.server.service.context import PodToEvict, refused, whole
from cluster import names
from cluster.decide.eviction.fates import fate_of, is_brought_back_by_us
from cluster.decide.protection import never_evicted_reason
from cluster.kube.errors import ApiError, Conflict, Forbidden, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import NAMESPACES, PODS
from cluster.objects.demand import demand
from cluster.objects.evict_orders import EvictOrder, encode_order
from cluster.objects.jobs import Job
from cluster.objects.pods import Pod, asks_for_gpus, container_needs, is_terminal, is_terminating

log = structlog.get_logger(__name__)

_BACK_BY_US: Final = "it fails with its only pod, which GPU Booking brings back with its request for GPUs"


class PodOrders:
    """Implements ``booking.server.service.context.Evictions`` with the API server."""

    def __init__(self, kube: Kube, *, home: str, jobs: Callable[[], Mapping[str, Job]] = dict) -> None:
        """Args: home: the product's own namespace; jobs: returns ``namespace/name`` -> Job."""
        self._kube = kube
        self._jobs = jobs
        self._home = home

    def order(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> None:
        """Write an order on the pod that was read, and on no other of its name.

        Raises:
            RefusedError: it is not a pod that can be evicted by order.
            UnknownPodError: there is none of that name, or it has just gone.
            ClusterError: the API server does not answer, or forbids it.
        """
        self._write(namespace, pod, EvictOrder(by=by, reason=reason, at=whole(at)))

    def dry_run(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> PodToEvict:
        """See ``Evictions``: the API server validates the very patch that would be written."""
        found = self._write(namespace, pod, EvictOrder(by=by, reason=reason, at=whole(at)), dry_run=True)
        return _described(found, self._jobs())

    def _write(self, namespace: str, pod: str, order: EvictOrder, *, dry_run: bool = False) -> Pod:
        """Write the order, possibly as a dry run; returns the pod as it was read."""
        unknown = UnknownPodError(f"There is no pod {pod} in the namespace {namespace}.")
        try:
            found = self._kube.get(PODS, pod, namespace=namespace)
            self._require_evictable(found)
            annotations = {names.EVICT: encode_order(order)}
            body = {"metadata": {"uid": found.metadata.uid, "annotations": annotations}}
            self._kube.patch(PODS, pod, body, namespace=namespace, dry_run=dry_run)
        except (NotFound, Conflict) as error:
            raise unknown from error
        except Forbidden as error:
            raise ClusterError(f"The booking server may not order that: {error.message}") from error
        except ApiError as error:
            log.warning("an order to evict could not be written", pod=f"{namespace}/{pod}", error=str(error))
            raise ClusterError(
                "The Kubernetes API server does not answer as it should: look whether the pod is still "
                "there, and order it again."
            ) from error
        return found

    def _require_evictable(self, pod: Pod) -> None:
        """Check that it holds or requests GPUs, and that it can be evicted."""
        if not asks_for_gpus(pod):
            raise refused("asks-for-no-gpu", f"The pod {pod.key} asks for no GPU: nothing is freed by it.")
        if is_terminal(pod) or is_terminating(pod):
            raise refused("gone-already", f"The pod {pod.key} has finished or is leaving already.")
        if not pod.spec.node_name:
            raise refused("holds-nothing", f"The pod {pod.key} waits, and holds no GPU: delete it.")
        spaces = {pod.metadata.namespace: self._kube.get(NAMESPACES, pod.metadata.namespace)}
        why = never_evicted_reason(pod, namespaces=spaces, home=self._home)
        if why:
            raise refused("never-evicted", f"The pod {pod.key} stays: {why}.")


def _described(pod: Pod, jobs: Mapping[str, Job]) -> PodToEvict:
    """The pod's description for people."""
    owner = pod.metadata.controller
    why = _BACK_BY_US if is_brought_back_by_us(pod, jobs) else fate_of(pod, jobs).why
    return PodToEvict(
        user=pod.metadata.annotation(names.USER) or None,
        booking=pod.metadata.annotation(names.BOOKING) or None,
        node=pod.spec.node_name or "",
        gpus=sum(demand(container_needs(pod)).values()),
        controller=f"{owner.kind}/{owner.name}" if owner else None,
        not_replaced=why or None,
    )
