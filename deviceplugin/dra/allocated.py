"""Claims by which pods of this node may yet get a GPU, prepared or not, and whether more are still offered.

Asked only while a node changes from claims to another way: otherwise the agent's own record suffices.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

import structlog

from cluster import claim_names
from cluster.kube.errors import ApiError, Forbidden, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import RESOURCE_SLICES
from cluster.objects.pods import Pod, is_terminal
from deviceplugin.dra.orphans import claim_of, has_devices
from deviceplugin.dra.slice_publisher import slices_of
from deviceplugin.kubelet.pod_source import StoredPodsError

log = structlog.get_logger(__name__)


class AllocatedClaims:
    """Asks the API server."""

    def __init__(self, kube: Kube, pods: Callable[[], tuple[Pod, ...]], *, node: str, driver: str) -> None:
        """Args: pods: those that are bound to the node; raises StoredPodsError."""
        self._kube = kube
        self._pods = pods
        self._node = node
        self._driver = driver

    def claims(self) -> tuple[str, ...] | None:
        """``namespace/name`` of the claims of living pods here that have devices of this node.

        None if that cannot be read now; none where the agent has no right to read claims.
        """
        try:
            return tuple(sorted({key for pod in self._pods() for key in self._of(pod)}))
        except Forbidden as error:
            log.warning("claims of this node cannot be read", message=str(error))
            return ()
        except (ApiError, StoredPodsError) as error:
            log.warning("claims of this node cannot be read", message=str(error))
            return None

    def is_offered(self) -> bool:
        """Whether kube-scheduler is still offered devices of ours, as far as is known.

        An agent without the right to read slices has none, or nobody could write any.
        """
        try:
            slices = slices_of(self._kube, self._node, self._driver)
        except Forbidden:
            return False
        except ApiError:
            return True
        return any(one.spec.devices for name, one in slices.items() if self._is_ours(name))

    def withdraw(self) -> None:
        """Delete our slices of this node, as far as the API server lets us."""
        with suppress(ApiError):
            for name in filter(self._is_ours, slices_of(self._kube, self._node, self._driver)):
                with suppress(NotFound):
                    self._kube.delete(RESOURCE_SLICES, name)

    def _is_ours(self, name: str) -> bool:
        return name.startswith(f"{claim_names.SLICE_PREFIX}{self._node}-")

    def _of(self, pod: Pod) -> Iterator[str]:
        if is_terminal(pod):
            return
        made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses or ()}
        named = [one.resource_claim_name or made.get(one.name) for one in pod.spec.resource_claims or ()]
        if extended := pod.status.extended_resource_claim_status:
            named.append(extended.resource_claim_name)
        for claim in named:
            if claim is not None and self._has_devices(claim, pod.metadata.namespace or ""):
                yield f"{pod.metadata.namespace}/{claim}"

    def _has_devices(self, name: str, namespace: str) -> bool:
        claim = claim_of(self._kube, namespace, name)
        return claim is not None and has_devices(claim, (self._driver, self._node))
