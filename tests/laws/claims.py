"""Pods with claims as the watcher judges them: with what their claims ask for, and with their devices.

Kept from what is stored, by the cache's own reading of claims. A device of a claim is shown as one that was
given to the pod, as soon as the pod is bound; a claim's change is a change of its pods. A share by a claim is
shown as if its container asked for it by limits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace as changed
from typing import Any, Final

from msgspec.structs import replace

from cluster import names
from cluster.cache import CLAIM_KINDS, ClusterCache, with_expressions
from cluster.cache.claims import claims_of
from cluster.kube.resources import NODES, PODS, Object, Resource
from cluster.objects.assignment import encode_assignment
from cluster.objects.claims import ResourceClaim
from cluster.objects.pods import Pod, Resources
from cluster.process.clock import Clock
from tests.laws.changes import WATCHED, Change

KINDS: Final[dict[str, Resource[Any]]] = {one.plural: one for one in CLAIM_KINDS}
"""What is followed besides where claims can be booked."""
_FED: Final[dict[str, Resource[Any]]] = {**KINDS, NODES.plural: NODES, PODS.plural: PODS}


class ClaimedPods:
    """What the watcher is shown of pods, where claims can be booked."""

    def __init__(self, clock: Clock) -> None:
        self._cache = ClusterCache(clock, claims=with_expressions(names.DRA_DRIVER))
        self._stored: dict[str, Pod] = {}
        self._shown: dict[str, Pod] = {}

    def known(self, plural: str, obj: Object) -> Any:
        """An object of one of ``KINDS`` as it was last seen."""
        meta = obj.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        return self._cache.of(KINDS[plural]).live.get(key)

    def listed(self, plural: str, items: Iterable[Object]) -> list[Object]:
        """All objects of a kind, as they are shown."""
        found = list(items)
        if plural in _FED:
            self._cache.of(_FED[plural]).replace(found, "1")
        if plural != PODS.plural:
            return found
        self._stored = {one.metadata.uid: one for one in found if isinstance(one, Pod)}
        self._shown = {uid: self._show(one) for uid, one in self._stored.items()}
        return list(self._shown.values())

    def changes(self, change: Change) -> Iterator[Change]:
        """A change as it is shown, and those of pods that follow from it."""
        plural, before, after = change.plural, change.before, change.after
        if plural in _FED:
            store = self._cache.of(_FED[plural])
            if after is not None:
                store.upsert(after)
            elif before is not None:
                store.remove(before)
        if plural == PODS.plural:
            yield self._of_pod(change)
        elif plural in WATCHED:
            yield change
        if isinstance(change.object, ResourceClaim):
            for was, now in self._of_claim(change.object):
                yield changed(change, plural=PODS.plural, before=was, after=now)

    def _of_pod(self, change: Change) -> Change:
        uid = change.object.metadata.uid
        before = self._shown.pop(uid, change.before)
        self._stored.pop(uid, None)
        if not isinstance(change.after, Pod):
            return changed(change, before=before if change.before else None)
        self._stored[uid], self._shown[uid] = change.after, self._show(change.after)
        return changed(change, before=before if change.before else None, after=self._shown[uid])

    def _show(self, pod: Pod) -> Pod:
        if not pod.spec.resource_claims:
            return pod
        found = _with_limits(self._cache.with_claims(pod))
        held = {one.device for one in found.claims.held} if found.claims else set()
        with self._cache.locked() as ledger:
            devices = ledger.view(pod.spec.node_name or "").devices
        uuids = tuple(sorted(device.uuid for device in devices if device.claimed_as in held))
        if not uuids or not pod.spec.node_name:
            return found
        given = encode_assignment({_user_of(found): uuids})
        annotations = {**(pod.metadata.annotations or {}), names.ASSIGNED: given}
        return replace(found, metadata=replace(pod.metadata, annotations=annotations))

    def _of_claim(self, claim: ResourceClaim) -> Iterator[tuple[Pod, Pod]]:
        for uid, pod in self._stored.items():
            if claim.key in claims_of(pod):
                before, after = self._shown[uid], self._show(pod)
                if after != before:
                    self._shown[uid] = after
                    yield before, after


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
