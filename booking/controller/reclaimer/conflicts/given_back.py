"""Gives back what claims have for nobody (``unused_claims``), so that kube-scheduler gives it anew.

Nothing is given back that a pod has, or is about to get, at the moment of the write:

- The claim was read a while ago, and has not changed since: its version is the precondition. To reserve it
  kube-scheduler writes it, and whoever is second, it or we, is refused.
- A Binding of before may still be on its way. It names the pod's version, so the pod is written first: from
  then on it is bound no more by that, and by a new one only after the claim has been reserved again.

Dead in between, another process begins anew, and repeats what does no harm.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from booking.controller.reclaimer.conflicts.unused_claims import unused_claims
from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import claim_names
from cluster.cache.claims import claims_of
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.resources import PODS, RESOURCE_CLAIMS
from cluster.objects.claims import ResourceClaim
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)

UNUSED_FOR: Final = 15.0
"""Seconds for which a claim must not have changed: more than kube-scheduler lets pass between two tries to
bind a pod (``podMaxBackoffSeconds``), and than such a try takes."""
LOOKS_EVERY: Final = 1.0
"""Seconds between two looks at all pods."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A claim that was reserved for nobody."""

    claim: ResourceClaim
    at: float
    """When it was read, monotonic seconds."""


class GivenBack:
    """Watches such claims, and gives back what they have. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, driver: str) -> None:
        """Args: driver: the name of our driver of claims."""
        self._context, self._kube, self._clock = context, context.kube, context.clock
        self._driver = driver
        self._read: dict[str, _Read] = {}
        """By uid."""
        self._looked = -LOOKS_EVERY

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Look at the claims that have devices for nobody, and give back what they have had for long."""
        now = self._clock.monotonic()
        if now - self._looked < LOOKS_EVERY:
            return
        self._looked = now
        rules = (rule.spoils(self._driver) for rule in snapshot.taint_rules.values())
        found = unused_claims(snapshot, frozenset(place for place in rules if place))
        self._read = {uid: one for uid, one in self._read.items() if uid in found}
        for uid, pods in found.items():
            try:
                self._advance(uid, pods)
            except ApiError as error:
                self._context.failures.note("devices of a claim to give back", uid, error)

    def _advance(self, uid: str, pods: tuple[Pod, ...]) -> None:
        read = self._read.get(uid)
        if read is None:
            claim = self._find(uid, pods[0])
            if claim and claim.status.allocation and not claim.status.reserved_for:
                self._read[uid] = _Read(claim, self._clock.monotonic())
        elif self._clock.monotonic() - read.at >= UNUSED_FOR:
            del self._read[uid]  # whatever comes of it: the claim is read anew before the next try
            with suppress(Conflict, NotFound):  # it, or a pod, is gone or has changed
                self._give_back(read.claim, pods)

    def _find(self, uid: str, pod: Pod) -> ResourceClaim | None:
        """The pod's claim with this uid, as stored; None if it is gone."""
        for key in claims_of(pod):
            namespace, _, name = key.partition("/")
            with suppress(NotFound):
                claim = self._kube.get(RESOURCE_CLAIMS, name, namespace=namespace)
                if claim.metadata.uid == uid:
                    return claim
        return None

    def _give_back(self, claim: ResourceClaim, pods: tuple[Pod, ...]) -> None:
        meta = claim.metadata
        last = f"{meta.name}@{meta.resource_version}"
        for pod in pods:
            body = {"metadata": {"uid": pod.metadata.uid, "annotations": {claim_names.GIVEN_BACK: last}}}
            now = self._kube.patch(PODS, pod.metadata.name, body, namespace=pod.metadata.namespace)
            if now.spec.node_name:
                return
        preconditions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        self._kube.patch(
            RESOURCE_CLAIMS,
            meta.name,
            {"metadata": preconditions, "status": {"allocation": None}},
            namespace=meta.namespace,
            subresource="status",
        )
        log.warning(
            "a claim has given back devices on which its pod is not bound",
            claim=claim.key,
            pods=[pod.key for pod in pods],
            devices=[
                f"{one.pool}/{one.device}"
                for one in (claim.status.allocation.devices.results if claim.status.allocation else ())
            ],
        )
