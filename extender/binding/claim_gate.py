"""The gate of law L1 for pods with claims: their devices are read once more, and are nobody else's.

kube-scheduler writes allocations itself, just before it asks us to bind. It counts allocated devices in a
set: a device that two claims had is free for it as soon as one of them has given it back, and two
kube-schedulers know nothing of each other. So a pod is bound only if no other claim that is in use has one of
its devices.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from cluster import names
from cluster.cache.claims import claims_of
from cluster.decide.ledger import Ledger
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import RESOURCE_CLAIMS
from cluster.objects.pods import Pod, may_have_claims
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
        if not self._state.follows_claims or not may_have_claims(pod):
            return pod
        for key in claims_of(pod):
            if not self._read(key, within):
                raise BindError(f"The pod's claim {key.partition('/')[2]} is gone.")
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
        twice = set(view.conflicts).intersection(theirs.values())
        if twice and (had := twice & self._had_by_others(node, frozenset(found.claims.uids), within)):
            raise BindError(f"Another claim has {', '.join(sorted(had))}, a device of this pod's claims.")
        return found

    def _had_by_others(self, node: str, mine: AbstractSet[str], within: float) -> frozenset[str]:
        """UUIDs of devices that several claims have, whose pods are bound or may be at this moment.

        Pods that wait with one device must not wait for each other for ever. kube-scheduler reserves the
        claims of a pod before it asks us to bind it: of two pods one at most finds the other's claims unused.
        """
        claims = self._state.of(RESOURCE_CLAIMS)
        with self._state.locked() as ledger:
            unused = _unused(ledger, node) - mine
            keys = [key for key, claim in claims.live.items() if claim.metadata.uid in unused]
        for key in keys:
            self._read(key, within)
        with self._state.locked() as ledger:
            return frozenset(ledger.view(node).without_pods(_unused(ledger, node) & unused).conflicts)

    def _read(self, key: str, within: float) -> bool:
        """Take over a claim as it is now; whether there is one."""
        namespace, _, name = key.partition("/")
        try:
            claim = self._kube.get(RESOURCE_CLAIMS, name, namespace=namespace, within=within)
        except NotFound:
            return False
        except ApiError as error:
            raise NotNowError(UNREADABLE) from error
        self._state.of(RESOURCE_CLAIMS).upsert(claim)
        return True


def _unused(ledger: Ledger, node: str) -> frozenset[str]:
    """Uids of claims with devices of a node that are reserved for no pod, and whose bind is not under way."""
    under_way = {
        uid for one in ledger.assumed.values() if one.pod.claims is not None for uid in one.pod.claims.uids
    }
    return frozenset(one.uid for one in ledger.view(node).holdings if one.users == ()) - under_way
