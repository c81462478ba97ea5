"""The gate of law L1 for pods with claims: their devices are read once more, and are nobody else's.

kube-scheduler writes allocations itself, just before it asks us to bind. It counts allocated devices in a
set: a device that two claims had is free for it as soon as one of them has given it back, and two
kube-schedulers know nothing of each other. So a pod is bound only if no other claim has one of its devices.
"""

from typing import Final

from cluster import names
from cluster.cache.claims import claims_of
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import RESOURCE_CLAIMS
from cluster.objects.pods import Pod
from extender.binding.bind_decision import BindError, NotNowError
from extender.state.cluster_state import ClusterState

UNREADABLE: Final = f"{names.NOT_NOW} A claim of the pod cannot be read from the API server."


class ClaimGate:
    """Reads the claims of a pod that is about to be bound."""

    def __init__(self, kube: Kube, state: ClusterState) -> None:
        self._kube = kube
        self._state = state

    def passed(self, pod: Pod, node: str, *, within: float) -> Pod:
        """The pod with what its claims have now; itself if it has none that we give.

        Args:
            pod: as filter saw it.
            node: where it is to be bound.
            within: seconds for all that is read.

        Raises:
            BindError: its claims have no devices there, another claim has one of them, or it is not known
                which ones they are.
        """
        if not self._state.follows_claims or not pod.spec.resource_claims:
            return pod
        for key in claims_of(pod):
            self._read(key, within)
        found = self._state.with_claims(pod)
        if found.claims is None:
            return found
        if found.claims.node != node:
            raise NotNowError(f"{names.NOT_NOW} The pod's claims have no devices of node {node} yet.")
        mine = {device.device for device in found.claims.held}
        with self._state.locked() as ledger:
            view = ledger.view(node)
        theirs = {device.claimed_as: device.uuid for device in view.devices if device.claimed_as in mine}
        if len(theirs) < len(mine):
            raise NotNowError(f"{names.NOT_NOW} Node {node} has not said which devices its claims give.")
        if twice := set(view.conflicts).intersection(theirs.values()):
            raise BindError(f"Another claim has {', '.join(sorted(twice))}, a device of this pod's claims.")
        return found

    def _read(self, key: str, within: float) -> None:
        namespace, _, name = key.partition("/")
        try:
            claim = self._kube.get(RESOURCE_CLAIMS, name, namespace=namespace, within=within)
        except NotFound as error:
            raise BindError(f"The pod's claim {name} is gone.") from error
        except ApiError as error:
            raise NotNowError(UNREADABLE) from error
        self._state.of(RESOURCE_CLAIMS).upsert(claim)
