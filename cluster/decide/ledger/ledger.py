"""The ledger: whole objects in, views of nodes out.

Every view is a function of the newest objects that were seen, never of the order in which they came. A pod
before its node, an event twice, an older state after a newer one, a deletion before the creation: all lead to
the same ledger. So the ledger after a restart equals the one before it, too (law L9). Only the models that
the owner names for nominated pods (``serve``) come from elsewhere, and count until the next call.
"""

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cluster.decide.claims.kept import KeptClaim
from cluster.decide.ledger.changes import Changes
from cluster.decide.ledger.claims import claim_holding, named, once_each
from cluster.decide.ledger.holdings import (
    SOURCES,
    PodHoldings,
    Source,
    as_reported,
    as_reservation,
    holding_with,
    holdings,
    on_known_devices,
    requested_shares,
    sized,
)
from cluster.decide.ledger.holds import devices_on_hold, standing_hold
from cluster.decide.ledger.node_shape import Layout
from cluster.decide.ledger.nominated import Nominated, nominated
from cluster.decide.ledger.resource_versions import is_older, version_is_older
from cluster.decide.ledger.view import NodeView, view_of
from cluster.objects.assignment import Assignment, AssignmentError, drift_of
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device, InventoryError, SharingMode, inventory_of
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, is_terminal

TOMBSTONES = 10_000
"""Deleted pods that are remembered, so that a late event about one does not bring it back."""


@dataclass(frozen=True, slots=True)
class AssumedBind:
    """A bind that we decided and whose event has not arrived yet."""

    pod: Pod
    """The pod as it was at the decision."""
    node: str
    assignment: Assignment
    mode: SharingMode | None = None
    """The mode in which it shares its devices, where that was decided, too."""

    @property
    def holdings(self) -> PodHoldings:
        """What the pod holds by it."""
        share = requested_shares(self.pod)
        if share and self.mode:
            share = msgspec.structs.replace(share, mode=self.mode)
        found = holding_with(self.pod.metadata.uid, self.node, self.assignment, share)
        return as_reservation(found, self.pod)


@dataclass(frozen=True, slots=True)
class _Known:
    """The parts of a Node that the ledger keeps."""

    meta: Meta
    devices: tuple[Device, ...] | None
    drift: dict[str, Assignment]
    fault: str | None
    is_cordoned: bool
    layout: Layout | None

    @property
    def matters(self) -> tuple[object, ...]:
        """The parts that a view is made of."""
        return self.devices, self.drift, self.fault, self.is_cordoned


class Ledger:
    """Which pod holds which amount of which device, node by node.

    Args:
        sources: where it is written what a pod holds.
    """

    def __init__(self, sources: Sequence[Source] = SOURCES) -> None:
        self._sources = sources
        self._nodes: dict[str, _Known] = {}
        self._pods: dict[str, str] = {}
        """Uid -> the newest resourceVersion."""
        self._holdings: dict[str, PodHoldings] = {}
        self._claims: dict[str, KeptClaim] = {}
        """Those that hold something of our driver's: what exactly is read again for each view."""
        self._driver = ""
        self._assumed: dict[str, AssumedBind] = {}
        self._tombstones: OrderedDict[str, str] = OrderedDict()
        self._on_node: dict[str, list[str]] = {}
        """Node -> who holds something there, sorted."""
        self._holds: dict[str, Hold] = {}
        self._holds_on: dict[str, set[str]] = {}
        self._nominated: dict[str, Nominated] = {}
        self._nominated_on: dict[str, set[str]] = {}
        self._served: Mapping[str, str] = {}
        self._views: dict[str, NodeView] = {}
        self._formerly: dict[str, NodeView] = {}
        """Views of nodes that have changed since they were last asked for."""
        self._unreported: set[str] = set()
        self._conflicts: dict[str, tuple[str, ...]] = {}
        """Node -> devices of which more is held than there is, in the node's last view."""
        self._conflicts_seen: dict[str, int] = {}
        self._sharing = 0
        """Number of pods that have shares of devices."""
        self._changes = Changes()
        self._all_views: dict[str, NodeView] = {}
        self._all_views_at = -1
        """The generation that these are of."""

    # --- objects -------------------------------------------------------------------------------------

    def apply_node(self, node: Node) -> bool:
        """Take over a Node: its inventory, and what its agent reports about drifted pods.

        Returns:
            False if the state is older than the known one; then nothing changes.
        """
        name = node.metadata.name
        known = self._nodes.get(name)
        if known and is_older(node.metadata, known.meta):
            return False
        fresh = _known(node)
        self._nodes[name] = fresh
        # Nodes change often (conditions, images), but views change only with what matters here.
        if known is None or known.matters != fresh.matters:
            self._stale(name)
        return True

    def forget_node(self, name: str) -> None:
        """A Node is gone. Pods on it still hold what they hold."""
        if self._nodes.pop(name, None):
            self._stale(name)
            self._conflicts.pop(name, None)
            self._formerly.pop(name, None)

    def apply_pod(self, pod: Pod) -> bool:
        """A Pod as it is now. Once it is seen bound, its assumed bind is dropped.

        Returns:
            False if the state is older than the known one, or the pod was deleted; then nothing changes.
        """
        uid = pod.metadata.uid
        version, known = pod.metadata.resource_version, self._pods.get(uid)
        if known is not None and version_is_older(version, known):
            return False
        deleted_version = self._tombstones.get(uid)
        if deleted_version is not None and not version_is_older(deleted_version, version):
            return False
        self._pods[uid] = version
        if pod.spec.node_name or is_terminal(pod):
            self._assumed.pop(uid, None)
        self._set_holding(uid, self._effective(uid, holdings(pod, self._sources)))
        self._set_hold(uid, standing_hold(pod))
        self._set_nomination(uid, nominated(pod))
        return True

    def apply_claim(self, claim: KeptClaim, driver: str) -> None:
        """A ResourceClaim as it is now: it holds its devices until the API server says otherwise.

        Args:
            claim: the newest state.
            driver: the name of our driver, the same in all calls.
        """
        self._driver = driver
        self._set_claim(claim.uid, claim)

    def forget_claim(self, uid: str) -> None:
        """A ResourceClaim is gone."""
        self._set_claim(uid, None)

    def forget_pod(self, uid: str, version: str | None = None) -> None:
        """A Pod is gone, or has ended.

        Args:
            uid: its uid.
            version: resourceVersion of the deletion, or of the list that the pod is missing in: later events
                with older states are ignored then, and a newer state that is known already stays.
        """
        if version and any(version_is_older(version, known) for known in self._versions(uid)):
            return
        if version and not version_is_older(version, self._tombstones.get(uid, "")):
            self._tombstones[uid] = version
            self._tombstones.move_to_end(uid)
            while len(self._tombstones) > TOMBSTONES:
                self._tombstones.popitem(last=False)
        self._pods.pop(uid, None)
        self._assumed.pop(uid, None)
        self._set_holding(uid, None)
        self._set_hold(uid, None)
        self._set_nomination(uid, None)

    def _versions(self, uid: str) -> Iterator[str]:
        """The resourceVersions at which the pod has been seen, in an event or by a decision."""
        if (known := self._pods.get(uid)) is not None:
            yield known
        if assumption := self._assumed.get(uid):
            yield assumption.pod.metadata.resource_version

    # --- what we decided -----------------------------------------------------------------------------

    def assume(self, pod: Pod, node: str, assignment: Assignment, *, mode: SharingMode | None = None) -> None:
        """Count a bind that we decided until its event arrives, or ``forget_assumed`` takes it back.

        Does nothing if the pod was already seen bound or gone.
        """
        uid = pod.metadata.uid
        if uid in self._tombstones or uid in self._holdings:
            return
        self._assumed[uid] = assumed = AssumedBind(pod=pod, node=node, assignment=assignment, mode=mode)
        self._set_holding(uid, assumed.holdings)

    def forget_assumed(self, uid: str) -> None:
        """Take back the assumed bind of a pod; does nothing if the pod was seen bound meanwhile."""
        if self._assumed.pop(uid, None):
            self._set_holding(uid, None)

    def assumption(self, uid: str) -> AssumedBind | None:
        """The assumed bind of a pod; None if there is none."""
        return self._assumed.get(uid)

    @property
    def assumed(self) -> dict[str, AssumedBind]:
        """Pod uid -> its assumed bind; the dict is the caller's own."""
        return dict(self._assumed)

    @property
    def pods(self) -> frozenset[str]:
        """Uids of the pods that have been seen in an event or a list."""
        return frozenset(self._pods)

    def knows(self, uid: str) -> bool:
        """Whether a pod has been seen in an event or a list."""
        return uid in self._pods

    @property
    def has_shares(self) -> bool:
        """Whether any pod has shares of devices."""
        return self._sharing > 0

    def holders_on(self, node: str) -> Sequence[str]:
        """Uids of the pods and claims that hold something on a node, sorted; not to be changed."""
        return self._on_node.get(node, ())

    def holding(self, uid: str) -> PodHoldings | None:
        """What a pod holds, as is written on it or by an assumed bind; None for one that holds nothing."""
        return self._holdings.get(uid)

    # --- views ---------------------------------------------------------------------------------------

    def view(self, name: str) -> NodeView:
        """A node as it is now; a view without inventory if the node is unknown."""
        found = self._views.get(name)
        if found is None:
            found = self._snapshot(name)
            if before := self._formerly.pop(name, None):
                found.take_over(before)
            # Callers may ask for any name: views of unknown nodes are not kept.
            if name in self._nodes or name in self._on_node or name in self._holds_on:
                self._views[name] = found
        return found

    def views(self, names: Iterable[str]) -> list[NodeView]:
        """Several nodes, in the order of the names."""
        return [self.view(name) for name in names]

    def all_views(self) -> dict[str, NodeView]:
        """Name -> view of every node that exists; the dict is the caller's own."""
        changed = self._changes.since(self._all_views_at)
        if changed is None:
            self._all_views = {}
        for name in self._nodes if changed is None else changed:
            if name in self._nodes:
                self._all_views[name] = self.view(name)
            else:
                self._all_views.pop(name, None)
        self._all_views_at = self._changes.number
        return dict(self._all_views)

    def changed_nodes(self) -> set[str]:
        """Nodes whose views have changed since the last call. For a single caller."""
        found, self._unreported = self._unreported, set()
        return found

    def changed_since(self, generation: int) -> list[str] | None:
        """Nodes whose views have changed since a generation; None if that is not known: read all of them."""
        return self._changes.since(generation)

    def exists(self, name: str) -> bool:
        """Whether there is a node of this name."""
        return name in self._nodes

    def nomination(self, uid: str) -> str | None:
        """The node for which a waiting pod is nominated; None if it is for none."""
        known = self._nominated.get(uid)
        return known.node if known else None

    @property
    def nominated(self) -> frozenset[str]:
        """Uids of the waiting pods that are nominated for a node."""
        return frozenset(self._nominated)

    def serve(self, models: Mapping[str, str]) -> None:
        """Set uid -> model of the booking, for nominated pods with one: they get that model.

        It replaces what the previous call set.
        """
        for uid, nomination in self._nominated.items():
            if self._served.get(uid) != models.get(uid):
                self._stale(nomination.node)
        self._served = models

    @property
    def holds(self) -> dict[str, Hold]:
        """Pod uid -> its hold, if that counts; the dict is the caller's own."""
        return dict(self._holds)

    @property
    def size(self) -> int:
        """Number of the nodes that exist."""
        return len(self._nodes)

    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that exist, sorted."""
        return tuple(sorted(self._nodes))

    @property
    def generation(self) -> int:
        """A number that grows whenever any view changes: equal numbers, equal views."""
        return self._changes.number

    @property
    def conflicts_seen(self) -> dict[str, int]:
        """Node -> how often more of a device than there is was newly found to be held.

        The dict is the caller's own.
        """
        return dict(self._conflicts_seen)

    @property
    def conflicts(self) -> dict[str, tuple[str, ...]]:
        """Node -> UUIDs of devices of which more is held than there is, in last views with any."""
        return dict(self._conflicts)

    # --- inside --------------------------------------------------------------------------------------
    def _effective(self, uid: str, holding: PodHoldings | None) -> PodHoldings | None:
        assumed = self._assumed.get(uid)
        return assumed.holdings if assumed else holding

    def _set_holding(self, uid: str, holding: PodHoldings | None) -> None:
        before = self._holdings.get(uid)
        if before == holding:
            return
        self._sharing += bool(holding and holding.share) - bool(before and before.share)
        if before:
            del self._holdings[uid]
        if holding:
            self._holdings[uid] = holding
        self._move(uid, before, holding)
        if nomination := self._nominated.get(uid):
            self._stale(nomination.node)

    def _set_claim(self, uid: str, claim: KeptClaim | None) -> None:
        known = self._claims.pop(uid, None)
        before, now = (claim_holding(one, self._driver) if one else None for one in (known, claim))
        if claim and now:
            self._claims[uid] = claim
        if before != now:
            self._move(uid, before, now)

    def _move(self, uid: str, before: PodHoldings | None, now: PodHoldings | None) -> None:
        """A holder has something else than before, perhaps on another node."""
        if before:
            self._on_node[before.node].remove(uid)
            if not self._on_node[before.node]:
                del self._on_node[before.node]
            self._stale(before.node)
        if now:
            insort(self._on_node.setdefault(now.node, []), uid)
            self._stale(now.node)

    def _held_on(self, name: str) -> Iterator[PodHoldings]:
        for uid in self._on_node.get(name, ()):
            found = self._holdings.get(uid) or claim_holding(self._claims[uid], self._driver)
            if found:
                yield found

    def _set_hold(self, uid: str, hold: Hold | None) -> None:
        before = self._holds.get(uid)
        if before == hold:
            return
        if before:
            self._holds_on[before.node].discard(uid)
            if not self._holds_on[before.node]:
                del self._holds_on[before.node]
            del self._holds[uid]
            self._stale(before.node)
        if hold:
            self._holds[uid] = hold
            self._holds_on.setdefault(hold.node, set()).add(uid)
            self._stale(hold.node)
        if nomination := self._nominated.get(uid):
            self._stale(nomination.node)

    def _set_nomination(self, uid: str, nomination: Nominated | None) -> None:
        before = self._nominated.get(uid)
        if before == nomination:
            return
        if before:
            self._nominated_on[before.node].discard(uid)
            if not self._nominated_on[before.node]:
                del self._nominated_on[before.node]
            del self._nominated[uid]
            self._stale(before.node)
        if nomination:
            self._nominated[uid] = nomination
            self._nominated_on.setdefault(nomination.node, set()).add(uid)
            self._stale(nomination.node)

    def _stale(self, node: str) -> None:
        if (before := self._views.pop(node, None)) and node in self._nodes:
            self._formerly[node] = before
        self._unreported.add(node)
        self._changes.note(node, existing=len(self._nodes))

    @staticmethod
    def _as_reported(holding: PodHoldings, known: _Known, devices: Mapping[str, Device]) -> PodHoldings:
        """A holding as the node's agent has it, else as far as the node has its devices."""
        by_agent = as_reported(holding, known.drift, devices)
        return on_known_devices(holding, devices) if by_agent is holding and known.devices else by_agent

    def _snapshot(self, name: str) -> NodeView:
        known = self._nodes.get(name)
        of_pods = once_each(self._held_on(name))
        if any(each.claimed for each in of_pods):
            there = (known.devices if known else None) or ()
            by_name = {device.claimed_as: device for device in there if device.claimed_as}
            of_pods = tuple(named(each, by_name) for each in of_pods)
        if known and (known.drift or known.devices) and of_pods:
            devices = {one.uuid: one for one in known.devices or ()}
            of_pods = tuple(sized(self._as_reported(each, known, devices), devices) for each in of_pods)
        found = view_of(
            name,
            devices=known.devices if known else None,
            fault=known.fault if known else None,
            holdings=of_pods,
            on_hold=devices_on_hold({uid: self._holds[uid] for uid in self._holds_on.get(name, ())}),
            is_cordoned=bool(known and known.is_cordoned),
            nominated=tuple(
                self._nominated[uid].served(self._served.get(uid))
                for uid in sorted(self._nominated_on.get(name, ()))
                if uid not in self._holdings and uid not in self._holds
            ),
            layout=known.layout if known else None,
        )
        self._note_conflicts(found)
        return found

    def _note_conflicts(self, view: NodeView) -> None:
        name, found = view.name, view.conflicts
        before = self._conflicts.pop(name, ())
        if found:
            self._conflicts[name] = found
            if new := set(found) - set(before):
                self._conflicts_seen[name] = self._conflicts_seen.get(name, 0) + len(new)


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
    return _Known(
        meta=meta,
        devices=devices or None,
        drift=drift,
        fault=fault,
        is_cordoned=bool(node.spec.unschedulable),
        layout=Layout(devices) if devices else None,
    )
