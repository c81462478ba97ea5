"""Pods with claims as the watcher judges them: with what their claims ask for, and with their devices.

Kept from what is stored, by the cache's own reading of claims. A device of a claim is shown as one that was
given to the pod, as soon as the pod is bound; a claim's change is a change of its pods.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from cluster import names
from cluster.cache import CLAIM_KINDS, ClusterCache, with_expressions
from cluster.cache.claims import claims_of
from cluster.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from cluster.objects.assignment import encode_assignment
from cluster.objects.claims import ResourceClaim
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

FOLLOWED: Final = {one.plural: one for one in (*CLAIM_KINDS, NODES, PODS)}


class ClaimedPods:
    """What the watcher is shown of pods, where claims can be booked."""

    def __init__(self, clock: Clock) -> None:
        self._cache = ClusterCache(clock, claims=with_expressions(names.DRA_DRIVER))
        self._stored: dict[str, Pod] = {}
        self._shown: dict[str, Pod] = {}

    def note(self, plural: str, before: Any, after: Any) -> Iterator[tuple[Pod, Pod]]:
        """An object has changed: (before, after) of each pod that is another one by it."""
        if plural not in FOLLOWED:
            return
        store = self._cache.of(FOLLOWED[plural])
        if after is not None:
            store.upsert(after)
        elif before is not None:
            store.remove(before)
        if plural == PODS.plural:
            self._keep(before, after)
        if plural == RESOURCE_CLAIMS.plural:
            yield from self._of_claim(after or before)

    def before(self, pod: Any) -> Any:
        """A pod as the watcher saw it last."""
        return self._shown.get(pod.metadata.uid, pod) if pod is not None else None

    def shown(self, pod: Pod | None) -> Pod | None:
        """A pod as the watcher sees it."""
        if pod is None or not pod.spec.resource_claims:
            return pod
        found = self._cache.with_claims(pod)
        uuids = self._uuids(found)
        if not uuids or not pod.spec.node_name:
            return found
        given = {names.ASSIGNED: encode_assignment({"": uuids})}
        annotations = {**(found.metadata.annotations or {}), **given}
        return replace(found, metadata=replace(found.metadata, annotations=annotations))

    def _uuids(self, pod: Pod) -> tuple[str, ...]:
        held = {one.device for one in pod.claims.held} if pod.claims else set()
        with self._cache.locked() as ledger:
            devices = ledger.view(pod.spec.node_name or "").devices
        return tuple(sorted(device.uuid for device in devices if device.claimed_as in held))

    def _keep(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None:
            self._stored[after.metadata.uid] = after
            if (shown := self.shown(after)) is not None:
                self._shown[after.metadata.uid] = shown
        elif before is not None:
            self._stored.pop(before.metadata.uid, None)
            self._shown.pop(before.metadata.uid, None)

    def _of_claim(self, claim: ResourceClaim) -> Iterator[tuple[Pod, Pod]]:
        for uid, pod in self._stored.items():
            if claim.key in claims_of(pod):
                before, after = self._shown[uid], self.shown(pod)
                if after is not None and after != before:
                    self._shown[uid] = after
                    yield before, after
