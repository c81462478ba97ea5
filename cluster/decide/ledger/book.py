"""The ledger: whole objects in, views of nodes out.

Every view is a function of the newest objects that were seen, never of the order in which they came: a pod
before its node, an event twice, an older state after a newer one, a deletion before the creation, all end
in the same ledger. That also makes the ledger after a restart equal to the one before it (law L9).
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.decide.ledger.claims import Claim, claim_of, given
from cluster.decide.ledger.versions import is_older, version_is_older
from cluster.decide.ledger.view import NodeView, view_of
from cluster.objects.assignment import Assignment, AssignmentError, drift_of
from cluster.objects.inventory import Device, InventoryError, inventory_of
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, is_terminal

GRAVES = 10_000
"""Deleted pods that are remembered, so that a late word about one does not raise it."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A bind that we decided and whose event is not here yet."""

    pod: Pod
    """As it was when it was decided."""
    node: str
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class _Known:
    """What we keep of a Node."""

    meta: Meta
    devices: tuple[Device, ...] | None
    drift: dict[str, Assignment]
    fault: str | None


class Ledger:
    """Who holds which amount of which device, node by node."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Known] = {}
        self._pods: dict[str, Meta] = {}
        self._claims: dict[str, Claim] = {}
        self._assumed: dict[str, Assumption] = {}
        self._graves: OrderedDict[str, str] = OrderedDict()
        self._on_node: dict[str, set[str]] = {}
        self._views: dict[str, NodeView] = {}
        self._generation = 0

    # --- what objects say ----------------------------------------------------------------------------

    def apply_node(self, node: Node) -> None:
        """A Node as it is now: its inventory and what its agent says about drifted pods."""
        name = node.metadata.name
        known = self._nodes.get(name)
        if known and is_older(node.metadata, known.meta):
            return
        fresh = _known(node)
        self._nodes[name] = fresh
        # Nodes change often (conditions, images); views only with what matters here.
        if known is None or (known.devices, known.drift, known.fault) != (
            fresh.devices,
            fresh.drift,
            fresh.fault,
        ):
            self._stale(name)

    def forget_node(self, name: str) -> None:
        """A Node is gone. Pods on it still hold what they hold."""
        if self._nodes.pop(name, None):
            self._stale(name)

    def apply_pod(self, pod: Pod) -> None:
        """A Pod as it is now. Once it is seen bound, what was assumed about it is settled."""
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        if known and is_older(pod.metadata, known):
            return
        grave = self._graves.get(uid)
        if grave is not None and not version_is_older(grave, pod.metadata.resource_version):
            return
        self._pods[uid] = Meta(uid=uid, resource_version=pod.metadata.resource_version)
        if pod.spec.node_name or is_terminal(pod):
            self._assumed.pop(uid, None)
        self._claim(uid, self._effective(uid, claim_of(pod)))

    def forget_pod(self, uid: str, version: str | None = None) -> None:
        """A Pod is gone, or has ended.

        Args:
            uid: its uid.
            version: resourceVersion of the deletion, or of the list that the pod is missing in: later words
                about older states are ignored then, and a newer state that is known already stays.
        """
        if version and any(version_is_older(version, known) for known in self._versions(uid)):
            return
        if version and not version_is_older(version, self._graves.get(uid, "")):
            self._graves[uid] = version
            self._graves.move_to_end(uid)
            while len(self._graves) > GRAVES:
                self._graves.popitem(last=False)
        self._pods.pop(uid, None)
        self._assumed.pop(uid, None)
        self._claim(uid, None)

    def _versions(self, uid: str) -> Iterator[str]:
        """The resourceVersions in which the pod has been seen, by an event or by a decision."""
        if known := self._pods.get(uid):
            yield known.resource_version
        if assumption := self._assumed.get(uid):
            yield assumption.pod.metadata.resource_version

    # --- what we decided -----------------------------------------------------------------------------

    def assume(self, pod: Pod, node: str, assignment: Assignment) -> None:
        """Count a bind that we decided until its event comes, or ``forget_assumed`` takes it back.

        Does nothing for a pod that is already seen bound or gone: the objects say it all.
        """
        uid = pod.metadata.uid
        if uid in self._graves or uid in self._claims:
            return
        self._assumed[uid] = Assumption(pod=pod, node=node, assignment=assignment)
        self._claim(uid, given(uid, node, assignment))

    def forget_assumed(self, uid: str) -> None:
        """Take back what was assumed about a pod; nothing happens when the pod was seen bound meanwhile."""
        if self._assumed.pop(uid, None):
            self._claim(uid, None)

    @property
    def assumed(self) -> dict[str, Assumption]:
        """Pod uid -> bind that is not seen yet."""
        return dict(self._assumed)

    @property
    def pods(self) -> frozenset[str]:
        """Uids of the pods that objects have told about."""
        return frozenset(self._pods)

    def claim(self, uid: str) -> Claim | None:
        """What a pod holds by its own words or by what was assumed, None for one that holds nothing."""
        return self._claims.get(uid)

    # --- what decisions see --------------------------------------------------------------------------

    def view(self, name: str) -> NodeView:
        """A node as it is now; one without inventory when nobody knows the node."""
        found = self._views.get(name)
        if found is None:
            found = self._views[name] = self._look(name)
        return found

    def views(self, names: Iterable[str]) -> list[NodeView]:
        """Several nodes, in the order of the names."""
        return [self.view(name) for name in names]

    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that exist, sorted."""
        return tuple(sorted(self._nodes))

    @property
    def generation(self) -> int:
        """A number that grows whenever any view changes: equal numbers, equal views."""
        return self._generation

    # --- inside --------------------------------------------------------------------------------------

    def _effective(self, uid: str, claim: Claim | None) -> Claim | None:
        assumed = self._assumed.get(uid)
        return given(uid, assumed.node, assumed.assignment) if assumed else claim

    def _claim(self, uid: str, claim: Claim | None) -> None:
        before = self._claims.get(uid)
        if before == claim:
            return
        if before:
            self._on_node[before.node].discard(uid)
            if not self._on_node[before.node]:
                del self._on_node[before.node]
            del self._claims[uid]
            self._stale(before.node)
        if claim:
            self._claims[uid] = claim
            self._on_node.setdefault(claim.node, set()).add(uid)
            self._stale(claim.node)

    def _stale(self, node: str) -> None:
        self._views.pop(node, None)
        self._generation += 1

    def _look(self, name: str) -> NodeView:
        known = self._nodes.get(name)
        drift = known.drift if known else {}
        claims = tuple(
            given(uid, name, drift[uid]) if uid in drift else self._claims[uid]
            for uid in sorted(self._on_node.get(name, ()))
        )
        return view_of(
            name,
            devices=known.devices if known else None,
            fault=known.fault if known else None,
            claims=claims,
        )


def _known(node: Node) -> _Known:
    meta = Meta(uid=node.metadata.uid, resource_version=node.metadata.resource_version)
    try:
        devices: tuple[Device, ...] | None = inventory_of(node)
        fault = None
    except InventoryError:
        devices, fault = None, "the node's GPU inventory cannot be read"
    try:
        drift = drift_of(node)
    except AssignmentError:
        drift, fault = {}, "what the node agent says about drifted pods cannot be read"
    return _Known(meta=meta, devices=devices or None, drift=drift, fault=fault)
