"""ResourceClaims as Kubernetes treats them: who makes them, gives them devices, and takes these back.

``ClaimController`` is the resource claim controller of kube-controller-manager, ``Allocator`` the plugin
DynamicResources of kube-scheduler, as far as our parts see them. Source: Kubernetes 1.37.

Like the real one the allocator keeps the allocated devices in a set: a device that two claims have is free
for it as soon as one of them is without it. Of a device that several claims may have it adds up the memory.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import ceil
from typing import Any, Final

import msgspec

from cluster import names
from cluster.decide.claims.expressions import judged
from cluster.decide.claims.terms import terms_of, verdict
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import (
    CLAIM_TEMPLATES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    WHOLE_PODS,
    WholePod,
)
from cluster.objects.claim_shares import MEMORY, MIB
from cluster.objects.claims import (
    Allocated,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
    ResourceSlice,
    TaintRule,
)
from cluster.objects.pods import Pod
from cluster.objects.quantity import parse_amount
from demo.simulation.claim_counters import Counters
from demo.simulation.part import Part
from demo.simulation.surroundings import Surroundings

Json = dict[str, Any]
Place = tuple[str, str]
"""(pool, device)."""

MAKER: Final = "system:serviceaccount:kube-system:resource-claim-controller"
ENDED: Final = frozenset({"Succeeded", "Failed"})


class ClaimController(Part):
    """Makes claims from templates, and takes devices from claims that no pod uses any more."""

    latency = 0.01
    user = MAKER

    def __init__(self, world: Surroundings) -> None:
        super().__init__(world, "claims")

    def build(self) -> None:
        """A new process."""
        self._pods, self._claims = _Kept(), _Kept()
        self._is_to_try_again = False
        self.follow(
            Reflector(self.kube, WHOLE_PODS, self._pods, self.clock),
            Reflector(self.kube, RESOURCE_CLAIMS, self._claims, self.clock),
            Reflector(self.kube, CLAIM_TEMPLATES, _Kept(), self.clock),
        )

    def on_events(self) -> None:
        """Do what is due: a pod whose template does not exist keeps no other waiting."""
        due = [pod for pod in self._pods.objects.values() if "nodeName" not in pod.spec and _lives(pod)]
        steps = [partial(self._make, pod) for pod in due]
        steps += [partial(self._release, claim) for claim in self._claims.objects.values()]
        failed = [step for step in steps if not _answered(step)]
        if failed and not self._is_to_try_again:
            self._is_to_try_again = True
            self.after(1.0, self._try_again)

    def _try_again(self) -> None:
        self._is_to_try_again = False
        self.on_events()

    def _make(self, pod: WholePod) -> None:
        """The claims of a pod that names templates, in its status."""
        wanted = [one for one in pod.spec.get("resourceClaims") or () if one.get("resourceClaimTemplateName")]
        known = list(pod.status.get("resourceClaimStatuses") or ())
        made = {one["name"] for one in known}
        new = [self._make_one(pod, one) for one in wanted if one["name"] not in made]
        if new:
            status = {"resourceClaimStatuses": [*known, *new]}
            meta = pod.metadata
            self.kube.patch(
                WHOLE_PODS, meta.name, {"status": status}, namespace=meta.namespace, subresource="status"
            )

    def _make_one(self, pod: WholePod, reference: Json) -> Json:
        meta = pod.metadata
        template = self.kube.get(
            CLAIM_TEMPLATES, reference["resourceClaimTemplateName"], namespace=meta.namespace
        )
        name = f"{meta.name}-{reference['name']}-{meta.uid}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
        body = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": msgspec.to_builtins(template.spec.spec),
        }
        self.kube.create(RESOURCE_CLAIMS, body, namespace=meta.namespace)
        return {"name": reference["name"], "resourceClaimName": name}

    def _release(self, claim: ResourceClaim) -> None:
        meta = claim.metadata
        owner = meta.controller
        if owner and not self._uses(owner.uid):
            self.kube.delete(RESOURCE_CLAIMS, meta.name, namespace=meta.namespace)
            return
        users = [one.uid for one in claim.status.reserved_for if self._uses(one.uid)]
        if len(users) == len(claim.status.reserved_for):
            return
        left = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
        status: Json = {"reservedFor": left or None} | ({} if left else {"allocation": None})
        self.kube.patch(
            RESOURCE_CLAIMS, meta.name, {"status": status}, namespace=meta.namespace, subresource="status"
        )

    def _uses(self, uid: str) -> bool:
        pod = self._pods.objects.get(uid)
        return pod is not None and pod.status.get("phase") not in ENDED


def _answered(step: Callable[[], None]) -> bool:
    try:
        step()
    except ApiError:
        return False
    return True


def _lives(pod: WholePod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.get("phase") not in ENDED


class _Kept:
    """A handler that keeps the objects of one kind, by uid."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}

    def replace(self, items: Iterable[Any], _version: str, /) -> None:
        """All of them."""
        self.objects = {item.metadata.uid: item for item in items}

    def upsert(self, item: Any, /) -> None:
        """New or changed."""
        self.objects[item.metadata.uid] = item

    def remove(self, item: Any, /) -> None:
        """Gone."""
        self.objects.pop(item.metadata.uid, None)


class Allocator:
    """What kube-scheduler knows of claims, and how it chooses devices."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.claims: dict[str, ResourceClaim] = {}
        """``namespace/name`` -> claim."""
        self.rules: dict[str, TaintRule] = {}
        self._allocated: set[Place] = set()
        self._consumed: dict[str, Counter[Place]] = {}
        """Uid of a claim -> MiB of devices that several claims may have."""

    def note_claim(self, now: ResourceClaim, *, is_gone: bool = False) -> None:
        """A claim is new, has changed or is gone. Devices are a set: that is the fault.

        What it has written itself it knows from the answer: what is older and comes later is ignored.
        """
        known = self.claims.get(now.key)
        is_other = known is not None and known.metadata.uid != now.metadata.uid
        if known and (is_other if is_gone else _version(known) > _version(now)):
            return
        was, has = _places(known), frozenset() if is_gone else _places(now)
        self._allocated -= was - has
        self._allocated |= has - was
        if known:
            del self.claims[known.key], self._consumed[known.metadata.uid]
        if not is_gone:
            self.claims[now.key], self._consumed[now.metadata.uid] = now, _consumed(now)

    def claims_of(self, pod: Pod) -> list[ResourceClaim] | None:
        """The pod's claims; None while one does not exist."""
        made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses or ()}
        called = [
            one.resource_claim_name or made.get(one.name) or "" for one in pod.spec.resource_claims or ()
        ]
        found = [self.claims.get(f"{pod.metadata.namespace}/{name}") for name in called]
        return None if None in found else [one for one in found if one]

    def choices(self, claims: list[ResourceClaim]) -> dict[str, dict[str, list[Json]]]:
        """Node -> name of a claim -> its results, where all claims can be met."""
        fixed = {place[0] for claim in claims for place in (*_places(claim), *_consumed(claim))}
        pools = {one.spec.node_name for one in self._kube.list(RESOURCE_SLICES).items}
        found: dict[str, dict[str, list[Json]]] = {}
        for node in sorted(fixed or pools):
            taken: Counter[Place] = Counter()
            chosen = {claim.metadata.name: self._choose(claim, node, taken) for claim in claims}
            if all(results is not None for results in chosen.values()):
                found[node] = {name: results for name, results in chosen.items() if results is not None}
        return found

    def write(self, claims: list[ResourceClaim], chosen: Mapping[str, list[Json]], pod: Pod) -> None:
        """PreBind: allocation and reservation in the status of each claim.

        Raises:
            ApiError: a claim could not be written; those before it are.
        """
        for claim in claims:
            meta = claim.metadata
            users = [one.uid for one in claim.status.reserved_for if one.uid != pod.metadata.uid]
            reserved = [{"resource": "pods", "name": uid, "uid": uid} for uid in [*users, pod.metadata.uid]]
            status: Json = {"reservedFor": reserved}
            if claim.status.allocation is None:
                status["allocation"] = {"devices": {"results": chosen[meta.name]}}
            body = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": status}
            written = self._kube.patch(
                RESOURCE_CLAIMS, meta.name, body, namespace=meta.namespace, subresource="status"
            )
            self.note_claim(written)

    def deallocate(self, claims: list[ResourceClaim]) -> bool:
        """PostFilter: no node is left for a pod, so one of its claims that have devices gives them back.

        Called where the plugin has refused a node because of them; whether there is such a claim.
        """
        for claim in claims:
            if claim.status.allocation is not None and not claim.status.reserved_for:
                meta = claim.metadata
                status: Json = {"status": {"allocation": None}}
                self._kube.patch(
                    RESOURCE_CLAIMS, meta.name, status, namespace=meta.namespace, subresource="status"
                )
                return True
        return False

    def unreserve(self, pod: Pod) -> None:
        """The pod was not bound: its claims keep their devices, and are reserved for it no more."""
        for known in self.claims_of(pod) or ():
            meta, uid = known.metadata, pod.metadata.uid
            claim = self._kube.get(RESOURCE_CLAIMS, meta.name, namespace=meta.namespace)
            left = [one.uid for one in claim.status.reserved_for if one.uid != uid]
            if len(left) < len(claim.status.reserved_for):
                reserved = [{"resource": "pods", "name": one, "uid": one} for one in left]
                status: Json = {"status": {"reservedFor": reserved or None}}
                self._kube.patch(
                    RESOURCE_CLAIMS, meta.name, status, namespace=meta.namespace, subresource="status"
                )

    def _choose(self, claim: ResourceClaim, node: str, taken: Counter[Place]) -> list[Json] | None:
        if claim.status.allocation is not None:
            return []
        found: list[Json] = []
        for request in claim.spec.devices.requests:
            results = self._first_that_fits(request, node, taken)
            if results is None:
                return None
            result = {"request": request.name, "driver": names.DRA_DRIVER, "pool": node}
            found += [{**result, **one} for one in results]
        shared = [one for one in found if "consumedCapacity" in one]
        for number, one in enumerate(shared):
            one["shareID"] = f"{claim.metadata.uid}-{number}"
        return found

    def _first_that_fits(self, request: DeviceRequest, node: str, taken: Counter[Place]) -> list[Json] | None:
        """The devices of the first way in which a request can be met on the node; None if there is none."""
        used = sum(self._consumed.values(), taken + Counter(self._allocated))
        slices = [one for one in self._kube.list(RESOURCE_SLICES).items if one.spec.node_name == node]
        for way in request.ways:
            everything = self._suitable(way, slices)
            counters = Counters(slices, (device for pool, device in used if pool == node))
            fits = [
                (entry["name"], amount, is_shared)
                for entry in everything
                for size, amount, is_shared in [_amount(way, entry)]
                if used[node, entry["name"]] + amount <= size
                and not self._is_tainted(node, entry["name"], way)
                and counters.take(entry)
            ]
            wanted = len(everything) if way.allocation_mode == "All" else way.count
            if wanted and len(fits) >= wanted:
                taken.update({(node, name): amount for name, amount, _ in fits[:wanted]})
                return [
                    {"device": name, **({"consumedCapacity": {MEMORY: f"{amount}Mi"}} if is_shared else {})}
                    for name, amount, is_shared in fits[:wanted]
                ]
        return None

    def _suitable(self, way: ExactRequest, slices: Iterable[ResourceSlice]) -> list[Json]:
        """The devices of a node that a request accepts, whoever has them."""
        known = self._kube.get(DEVICE_CLASSES, way.device_class_name)
        selectors = (*known.spec.selectors, *way.selectors)
        found: list[Json] = []
        for driver, entry in ((one.spec.driver, entry) for one in slices for entry in one.spec.devices):
            whole = terms_of(selectors, None if entry.get("allowMultipleAllocations") else way.capacity)
            if verdict(whole, driver, entry, judged) is True:
                found.append(entry)
        return found

    def _is_tainted(self, node: str, device: str, way: ExactRequest) -> bool:
        tolerated = {(one.key, one.value) for one in way.tolerations}
        return any(
            (rule.spec.device_selector.pool, rule.spec.device_selector.device) == (node, device)
            and (rule.spec.taint["key"], rule.spec.taint["value"]) not in tolerated
            for rule in self.rules.values()
        )


def _version(claim: ResourceClaim) -> int:
    return int(claim.metadata.resource_version)


def _places(claim: ResourceClaim | None) -> frozenset[Place]:
    return frozenset((one.pool, one.device) for one in _results(claim) if one.share_id is None)


def _consumed(claim: ResourceClaim) -> Counter[Place]:
    """MiB of devices that several claims may have."""
    found: Counter[Place] = Counter()
    for one in _results(claim):
        if one.share_id is not None:
            found[one.pool, one.device] += _mebibytes((one.consumed_capacity or {})[MEMORY])
    return found


def _results(claim: ResourceClaim | None) -> tuple[Allocated, ...]:
    allocation = claim.status.allocation if claim else None
    return allocation.devices.results if allocation else ()


def _amount(way: ExactRequest, entry: Json) -> tuple[int, int, bool]:
    """(What there is of a device, what a request takes of it, whether several claims may have it)."""
    if not entry.get("allowMultipleAllocations"):
        return 1, 1, False
    size = _mebibytes(entry["capacity"][MEMORY]["value"])
    wanted = ((way.capacity or {}).get("requests") or {}).get(MEMORY)
    return size, size if wanted is None else _mebibytes(wanted), True


def _mebibytes(amount: Any) -> int:
    return ceil(parse_amount(str(amount)) / MIB)
