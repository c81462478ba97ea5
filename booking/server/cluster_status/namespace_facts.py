"""What the API server knows of a namespace and no cache holds: quotas, and pods that could not be created."""

from typing import Final

import structlog

from booking.server.ttl_cache import TtlCache
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import EVENTS, QUOTAS, KubeEvent
from cluster.objects.resource_quotas import ResourceQuota
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

REFUSED: Final = "FailedCreate"
"""Reason of the Events that Kubernetes' controllers write about pods which they could not create."""
CREATED: Final = "SuccessfulCreate"
_MOST: Final = 500
"""Number of Events at most that are looked at: equal ones are one Event with a count."""


class NamespaceFacts:
    """Reads them; an answer counts for ten seconds. Thread-safe."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._quotas: TtlCache[str, tuple[ResourceQuota, ...]] = TtlCache(clock)
        self._refusals: TtlCache[tuple[str, str], tuple[KubeEvent, ...]] = TtlCache(clock)

    def quotas(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """The namespace's ResourceQuotas; none while they cannot be read."""
        selection = Selection(namespace=namespace)
        try:
            return self._quotas.get(namespace, lambda: self._kube.list(QUOTAS, selection).items)
        except ApiError as error:
            log.warning("the quotas of a namespace cannot be read", namespace=namespace, error=str(error))
            return ()

    def refusals(self, namespace: str) -> tuple[KubeEvent, ...]:
        """Events about pods that controllers of the namespace could not create.

        Raises:
            ApiError: they cannot be read.
        """
        return self._events(namespace, f"reason={REFUSED}")

    def creations(self, namespace: str, owner: str) -> tuple[KubeEvent, ...]:
        """Events about pods that a controller of this name has created.

        Raises:
            ApiError: they cannot be read.
        """
        return self._events(namespace, f"reason={CREATED},involvedObject.name={owner}")

    def _events(self, namespace: str, fields: str) -> tuple[KubeEvent, ...]:
        selection = Selection(namespace=namespace, field_selector=fields)
        return self._refusals.get(
            (namespace, fields), lambda: self._kube.list(EVENTS, selection, limit=_MOST).items
        )
