"""Pods with claims as the watcher judges them: with what their claims ask for, and with their devices.

Kept from what is stored, by the cache's own reading of claims. A device of a claim is shown as one that was
given to the pod, as soon as the pod is bound; a claim's change is a change of its pods. A share by a claim is
shown as if its container asked for it by limits.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any, Final

from msgspec.structs import replace

from cluster import names
from cluster.cache import CLAIM_KINDS, ClusterCache, with_expressions
from cluster.cache.claims import claims_of
from cluster.kube.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)
from cluster.objects.assignment import encode_assignment
from cluster.objects.claims import DeviceClass, ResourceClaim, ResourceSlice
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, Resources, may_have_claims
from cluster.process.clock import Clock
from tests.laws.changes import WATCHED, Change

KINDS: Final[dict[str, Resource[Any]]] = {one.plural: one for one in CLAIM_KINDS}
"""What is followed besides where claims can be booked."""
_FED: Final[dict[str, Resource[Any]]] = {**KINDS, NODES.plural: NODES, PODS.plural: PODS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Pods and what their claims are read from, as stored after one write: immutable."""

    pods: Mapping[str, Pod] = field(default_factory=dict)
    """By uid."""
    resourceclaims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    """By uid."""
    deviceclasses: Mapping[str, DeviceClass] = field(default_factory=dict)
    """By uid."""
    resourceslices: tuple[tuple[ResourceSlice, bool], ...] = ()
    """Each write of one, and whether it was its deletion: what was deleted may count for a while."""
    driver: str = names.DRA_DRIVER
    """Whose devices count."""

    def after(self, change: Change) -> "Stored":
        """What is stored after one more write."""
        plural, obj = change.plural, change.object
        if isinstance(obj, ResourceSlice):
            return changed(self, resourceslices=(*self.resourceslices, (obj, change.after is None)))
        if not (plural == PODS.plural or plural in KINDS):
            return self
        found = {uid: one for uid, one in getattr(self, plural).items() if uid != obj.metadata.uid}
        if change.after is not None:
            found[obj.metadata.uid] = change.after
        kinds: dict[str, Any] = {plural: found}
        return changed(self, **kinds)

    def knowing(self, plural: str, items: Iterable[Any]) -> "Stored":
        """With these and no others of a kind."""
        kinds: dict[str, Any] = {plural: {one.metadata.uid: one for one in items}}
        if plural == RESOURCE_SLICES.plural:
            kinds = {plural: tuple((one, False) for one in items)}
        return changed(self, **kinds) if plural == PODS.plural or plural in KINDS else self

    def objects(self, plural: str) -> tuple[Object, ...]:
        """All objects of a kind, slices also as they were before."""
        if plural == RESOURCE_SLICES.plural:
            return tuple(one for one, _ in self.resourceslices)
        return tuple(getattr(self, plural).values())

    def shown(self, nodes: Iterable[Node], clock: Clock) -> dict[str, Pod]:
        """Uid -> pod as it is shown where the nodes are as given."""
        cache = _empty(clock, self.driver)
        cache.of(NODES).replace(list(nodes), "1")
        slices = cache.of(RESOURCE_SLICES)
        for one, is_gone in self.resourceslices:
            (slices.remove if is_gone else slices.upsert)(one)
        cache.of(DEVICE_CLASSES).replace(list(self.deviceclasses.values()), "1")
        cache.of(RESOURCE_CLAIMS).replace(list(self.resourceclaims.values()), "1")
        return {uid: _show(pod, cache) for uid, pod in self.pods.items()}


class ClaimedPods:
    """What the watcher is shown of pods, where claims can be booked."""

    def __init__(self, clock: Clock, driver: str) -> None:
        self._cache = _empty(clock, driver)
        self.stored = Stored(driver=driver)
        """What it is shown from."""
        self._shown: dict[str, Pod] = {}

    def known(self, plural: str, obj: Object) -> Any:
        """An object of one of ``KINDS`` as it was last seen."""
        meta = obj.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        return self._cache.of(KINDS[plural]).live.get(key)

    def listed(self, plural: str, items: Iterable[Object]) -> tuple[str, list[Object]]:
        """All objects of a kind, as they are shown: of the claims' kinds the pods."""
        found = list(items)
        if plural not in _FED:
            return plural, found
        self._cache.of(_FED[plural]).replace(found, "1")
        self.stored = self.stored.knowing(plural, found)
        if plural == NODES.plural:
            return plural, found
        self._shown = {uid: _show(one, self._cache) for uid, one in self.stored.pods.items()}
        return PODS.plural, list(self._shown.values())

    def changes(self, change: Change) -> Iterator[Change]:
        """A change as it is shown, and those of pods that follow from it."""
        plural, before, after = change.plural, change.before, change.after
        if plural in _FED:
            store = self._cache.of(_FED[plural])
            if after is not None:
                store.upsert(after)
            elif before is not None:
                store.remove(before)
        self.stored = self.stored.after(change)
        if plural == PODS.plural:
            yield self._of_pod(change)
        elif plural in WATCHED:
            yield change
        if plural in _FED and plural != PODS.plural:
            for was, now in self._following(change.object):
                yield changed(change, plural=PODS.plural, before=was, after=now)

    def _of_pod(self, change: Change) -> Change:
        uid = change.object.metadata.uid
        before = self._shown.pop(uid, change.before)
        if not isinstance(change.after, Pod):
            return changed(change, before=before if change.before else None)
        self._shown[uid] = _show(change.after, self._cache)
        return changed(change, before=before if change.before else None, after=self._shown[uid])

    def _following(self, cause: Object) -> Iterator[tuple[Pod, Pod]]:
        """Pods as they were shown and are now: those of a claim, or those that may get other devices."""
        there = cause.metadata.name if isinstance(cause, Node) else None
        for uid, pod in self.stored.pods.items():
            of_claim = cause.key in claims_of(pod) if isinstance(cause, ResourceClaim) else None
            if of_claim or (of_claim is None and pod.spec.node_name in (None, "", there)):
                before, after = self._shown[uid], _show(pod, self._cache)
                if after != before:
                    self._shown[uid] = after
                    yield before, after


def _empty(clock: Clock, driver: str) -> ClusterCache:
    return ClusterCache(clock, claims=with_expressions(driver))


def _show(pod: Pod, cache: ClusterCache) -> Pod:
    if not may_have_claims(pod):
        return pod
    found, node = _with_limits(cache.with_claims(pod)), pod.spec.node_name or ""
    held = {one.device for one in found.claims.held if one.node == node} if found.claims else set()
    with cache.locked() as ledger:
        devices = ledger.view(node).devices
    uuids = tuple(sorted(device.uuid for device in devices if device.claimed_as in held))
    if not uuids or not pod.spec.node_name:
        return found
    given = encode_assignment({_user_of(found): uuids})
    annotations = {**(pod.metadata.annotations or {}), names.ASSIGNED: given}
    return replace(found, metadata=replace(pod.metadata, annotations=annotations))


def _with_limits(pod: Pod) -> Pod:
    """The pod; if it asks for a share by a claim, with limits that say so."""
    claims, containers = pod.claims, pod.spec.containers
    if claims is None or not claims.memory or not containers:
        return pod
    first, *others = containers
    limits = {**((first.resources.limits if first.resources else None) or {})}
    limits |= {names.SHARED_RESOURCE: str(claims.count), names.GPU_MEMORY: str(claims.memory)}
    sharing = replace(first, resources=Resources(limits=limits))
    spec = replace(pod.spec, containers=(sharing, *others))
    return replace(pod, spec=spec, claims=replace(claims, count=0))


def _user_of(pod: Pod) -> str:
    """The container to which devices are shown to be given."""
    containers = pod.spec.containers or ()
    limits = (containers[0].resources.limits if containers and containers[0].resources else None) or {}
    return containers[0].name if names.SHARED_RESOURCE in limits else ""
