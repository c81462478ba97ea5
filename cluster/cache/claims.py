"""ResourceClaims in the cache: each is told to the ledger, and what a pod asks for by claims is put on it.

Followed only where claims can be booked. A pod, its claims, their DeviceClasses, the ResourceSlices and the
inventories come in any order; whenever one changes, the pods that depend on it are read again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, cast

from msgspec.structs import replace

from cluster import names
from cluster.cache.accepted_devices import AcceptedDevices
from cluster.cache.store import Store
from cluster.decide.claims.extended import extended_of, is_by_claim
from cluster.decide.claims.kept import KeptClaim
from cluster.decide.claims.requested import Extended, Rules, requested_by
from cluster.decide.claims.terms import Judged
from cluster.decide.ledger import Ledger
from cluster.decide.ledger.resource_versions import is_older
from cluster.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from cluster.objects.claims import ClaimTemplate, DeviceClass, PodClaims, ResourceClaim, ResourceSlice
from cluster.objects.inventory import Device
from cluster.objects.pods import ClaimReference, Pod, is_terminal, may_have_claims

CLAIM_KINDS: Final[tuple[Resource[Any], ...]] = (RESOURCE_CLAIMS, DEVICE_CLASSES, RESOURCE_SLICES)
"""What is followed besides where claims can be booked."""
NOTHING: Final[Mapping[str, ResourceClaim]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    """How claims are read."""

    driver: str = names.DRA_DRIVER
    judged: Judged | None = None
    """None where nobody plans with claims: kube-scheduler judges."""


def with_expressions(driver: str) -> ClaimOptions:
    """For a part that plans with claims. The library is loaded here: only those need its memory."""
    judged: Judged = import_module("cluster.decide.claims.expressions").judged
    return ClaimOptions(driver, judged)


@dataclass(slots=True)
class _Users:
    """The pods with claims, as the API has them."""

    pods: dict[str, Pod] = field(default_factory=dict)
    of_claim: dict[str, set[str]] = field(default_factory=dict)
    """``namespace/name`` of a claim -> uids of the pods that name it."""


class Claims:
    """Puts on pods what their claims say. Guarded by the cache's lock."""

    def __init__(
        self,
        options: ClaimOptions,
        ledger: Ledger,
        *,
        claims: Store[ResourceClaim],
        classes: Store[DeviceClass],
        slices: Store[ResourceSlice],
        reread: Callable[[Pod], None],
    ) -> None:
        """Args: reread: called with a pod, as the API has it, whose claims have changed."""
        self._options, self._ledger, self._reread = options, ledger, reread
        self._claims = cast("Mapping[str, KeptClaim]", claims.live)  # as the cache keeps them
        self._classes = classes.live
        self._users = _Users()
        self._devices: dict[str, Mapping[str, Device]] = {}
        """Node -> name in its ResourceSlices -> device."""
        self._accepted = AcceptedDevices(options.driver, options.judged) if options.judged else None
        self._rules = Rules(options.driver, self._accepted.of if self._accepted else None)
        claims.observe(self._change_claim)
        classes.observe(lambda _key, _before, _now: self._read_all())
        slices.observe(self._change_slice)

    def joined(self, pod: Pod) -> Pod:
        """The pod with what its claims say; itself if it has none."""
        uid = pod.metadata.uid
        if not may_have_claims(pod):
            return pod
        known = self._users.pods.get(uid)
        if known and is_older(pod.metadata, known.metadata):
            return pod  # our own read was ahead of the watch
        self._forget(uid)
        if is_terminal(pod):
            return pod
        self._users.pods[uid] = pod
        for key in claims_of(pod):
            self._users.of_claim.setdefault(key, set()).add(uid)
        return self.read(pod)

    def read(self, pod: Pod) -> Pod:
        """The same for a pod that may not be stored, and may have claims."""
        claims = {one.name: self._claim(pod, one) for one in pod.spec.resource_claims or ()}
        found = requested_by(claims, self._classes, self._rules, extended=self._extended(pod))
        if found and not pod.spec.node_name:
            found = replace(found, reserved=tuple(_reserved(claims.values(), pod.metadata.uid)))
        return pod if found == pod.claims else replace(pod, claims=found)

    def foreseen(
        self, pod: Pod, templates: Mapping[str, ClaimTemplate], read: Mapping[str, ResourceClaim] = NOTHING
    ) -> PodClaims | None:
        """What a new pod will ask for. Claims from templates do not exist yet: admission will mark them.

        ``read``: what the pod calls it -> claim, of those that were read beside the watch.
        """
        claims = {
            one.name: self._known(pod, one, templates) or read.get(one.name)
            for one in pod.spec.resource_claims or ()
        }
        extended = self._extended(pod)
        return requested_by(claims, self._classes, self._rules, are_new=True, extended=extended)

    def unknown(self, pod: Pod, templates: Mapping[str, ClaimTemplate]) -> tuple[ClaimReference, ...]:
        """Those of a new pod's claims that do not exist, or of which the watch has not told yet."""
        claims = pod.spec.resource_claims or ()
        return tuple(one for one in claims if self._known(pod, one, templates) is None)

    def is_by_claims(self, pod: Pod) -> bool:
        """Whether kube-scheduler allocates claims for the pod, whichever driver's devices they are for."""
        return bool(pod.spec.resource_claims) or is_by_claim(pod, self._classes)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._forget(uid)

    def note_devices(self, node: str, devices: tuple[Device, ...]) -> None:
        """The inventory of a node is new, or has changed."""
        found = {device.claimed_as: device for device in devices if device.claimed_as}
        if found != self._devices.get(node, {}):
            self._devices[node] = found
            if self._accepted and self._accepted.change_devices(node, found):
                self._read_waiting()

    # --- inside --------------------------------------------------------------------------------------
    def _known(
        self, pod: Pod, reference: ClaimReference, templates: Mapping[str, ClaimTemplate]
    ) -> ResourceClaim | None:
        template = templates.get(f"{pod.metadata.namespace}/{reference.resource_claim_template_name}")
        return ResourceClaim(spec=template.spec.spec) if template else self._claim(pod, reference)

    def _claim(self, pod: Pod, reference: ClaimReference) -> ResourceClaim | None:
        key = _key(pod, reference)
        found = self._claims.get(key) if key else None
        if found and reference.resource_claim_template_name and pod.metadata.uid not in found.owners.split():
            return None
        return found.whole if found else None

    def _extended(self, pod: Pod) -> Extended | None:
        status = pod.status.extended_resource_claim_status
        key = f"{pod.metadata.namespace}/{status.resource_claim_name}" if status else ""
        found = self._claims.get(key)
        made = found.whole if found and pod.metadata.uid in found.owners.split() else None
        return extended_of(pod, self._classes, self._options.driver, made)

    def _change_claim(self, key: str, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        if before and (now is None or now.metadata.uid != before.metadata.uid):
            self._ledger.forget_claim(before.metadata.uid)
        if now:
            self._ledger.apply_claim(self._claims[key], self._options.driver)
        for uid in sorted(self._users.of_claim.get(key, ())):
            self._reread(self._users.pods[uid])

    def _change_slice(self, key: str, before: ResourceSlice | None, now: ResourceSlice | None) -> None:
        if before and now and before.spec == now.spec:
            return
        if self._accepted and self._accepted.change_slice(key, before, now):
            self._read_waiting()

    def _read_waiting(self) -> None:
        """Devices have changed: pods that wait may accept others."""
        for pod in [pod for pod in self._users.pods.values() if not pod.spec.node_name]:
            self._reread(pod)

    def _read_all(self) -> None:
        for pod in list(self._users.pods.values()):
            self._reread(pod)

    def _forget(self, uid: str) -> None:
        known = self._users.pods.pop(uid, None)
        for key in claims_of(known) if known else ():
            of_claim = self._users.of_claim.get(key, set())
            of_claim.discard(uid)
            if not of_claim:
                self._users.of_claim.pop(key, None)


def _reserved(claims: Iterable[ResourceClaim | None], pod: str) -> Iterator[str]:
    for claim in claims:
        if claim and any(one.uid == pod for one in claim.status.reserved_for):
            yield claim.metadata.uid


def claims_of(pod: Pod) -> tuple[str, ...]:
    """``namespace/name`` of the claims that exist for the pod."""
    found = tuple(key for one in pod.spec.resource_claims or () if (key := _key(pod, one)))
    made = pod.status.extended_resource_claim_status
    return (*found, f"{pod.metadata.namespace}/{made.resource_claim_name}") if made else found


def _key(pod: Pod, reference: ClaimReference) -> str | None:
    name = reference.resource_claim_name
    if name is None:
        made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses or ()}
        name = made.get(reference.name)
    return f"{pod.metadata.namespace}/{name}" if name else None
