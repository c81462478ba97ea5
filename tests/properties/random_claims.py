"""A random cluster with claims: what is stored, as one would note it by hand, and a cache that is told of it.

Two nodes give their GPUs by claims, one by ``nvidia.com/gpu``. Pods and claims are plain values here; the
cache under test gets them as the API server would have them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from booking.controller.reclaimer.snapshot import ReclaimerSnapshot, take
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.cache import ClusterCache, with_expressions
from cluster.fake.clock import FakeClock
from cluster.fake.merging import merged
from cluster.kube.resources import (
    BOOKINGS,
    DEVICE_CLASSES,
    LEASES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.inventory import Device, encode_inventory
from demo.simulation.claim_devices import CLASS, cel, claim_spec, claimed, slice_of
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000

Json = dict[str, Any]

TERMS: Final = EvictionSettings(restart_cost_seconds=20)
MODELS: Final = (f"{A100}{names.CLAIMED_MODEL}", A100, f"{A6000}{names.CLAIMED_MODEL}")
NODES_OF: Final[dict[str, tuple[Device, ...]]] = {
    "n0": tuple(claimed(a100(index, "n0")) for index in range(4)),
    "n1": (*(claimed(a100(index, "n1")) for index in range(3)), claimed(a6000(3, "n1"))),
    "n2": tuple(a100(index, "n2") for index in range(2)),
}
"""Node -> its devices."""
LARGE: Final = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('60Gi')) >= 0"
SOME: Final = ("GPU-n0-0", "GPU-n0-2", "GPU-n1-1")
ASKS: Final[dict[str, tuple[tuple[str, ...], Callable[[Device], bool] | None]]] = {
    "any": ((), lambda _: True),
    "large": ((LARGE,), lambda device: device.memory >= 60 * 1024),
    "some": ((f"device.attributes['gpu.nvidia.com'].uuid in {list(SOME)}",), lambda one: one.uuid in SOME),
    "unknown": (("device.attributes['gpu.nvidia.com'].nosuch == 'x'",), None),
}
"""What a claim can ask for: expressions, and the same in Python; None where nobody can say what would do."""


@dataclass
class Claim:
    """A ResourceClaim."""

    name: str
    asks: str = "any"
    count: int = 1
    devices: tuple[str, ...] = ()
    """UUIDs of what is allocated to it."""
    users: set[str] = field(default_factory=set)
    """``reservedFor``; also pods that are gone, until Kubernetes notices."""


@dataclass
class Somebody:
    """A pod; its name is its uid."""

    name: str
    user: str
    born: datetime
    claims: tuple[str, ...] = ()
    gpus: int = 0
    evictions: int = 0
    stays: bool = False
    """Whether its owner keeps it from being evicted."""
    node: str = ""
    devices: tuple[str, ...] = ()
    """Those that it has without a claim."""
    since: datetime = EPOCH
    going: datetime | None = None
    """Its ``deletionTimestamp``."""
    hold: Hold | None = None


class ClaimWorld:
    """What is stored; each change is told to ``cache``."""

    def __init__(self) -> None:
        self.clock = FakeClock(EPOCH)
        self.version = 1
        self.raws: dict[tuple[str, str], tuple[Resource[Any], Json]] = {}
        self.pods: dict[str, Somebody] = {}
        self.claims: dict[str, Claim] = {}
        self.cache = self.begun(())
        spec = {"selectors": [cel(CLASS)]}
        self.put(DEVICE_CLASSES, {"metadata": {"name": names.DRA_DRIVER}, "spec": spec})
        for name, devices in NODES_OF.items():
            annotations = {names.INVENTORY: encode_inventory(devices)}
            self.put(NODES, {"metadata": {"name": name, "annotations": annotations}})
            if name != "n2":
                self.put(RESOURCE_SLICES, slice_of(name, devices))
        self.pass_time(0)

    def begun(self, order: Iterable[tuple[str, str]]) -> ClusterCache:
        """A cache that is told now, in this order, of what is stored."""
        cache = ClusterCache(self.clock, claims=with_expressions(names.DRA_DRIVER))
        for resource, raw in (self.raws[key] for key in order):
            cache.of(resource).upsert(msgspec.convert(raw, resource.type))
        return cache

    def instant(self, cache: ClusterCache | None = None) -> ReclaimerSnapshot:
        """What a decision sees."""
        return take(cache or self.cache, self.clock, TERMS)

    # --- writing -----------------------------------------------------------------------------------------
    def put(self, resource: Resource[Any], raw: Json, *, gone: bool = False) -> None:
        """An object is stored, or is gone."""
        self.version += 1
        uid = raw["metadata"]["name"]
        raw = merged(raw, {"metadata": {"uid": uid, "resourceVersion": str(self.version)}})
        self.raws[resource.plural, uid] = resource, raw
        store, obj = self.cache.of(resource), msgspec.convert(raw, resource.type)
        if gone:
            del self.raws[resource.plural, uid]
            store.remove(obj)
        else:
            store.upsert(obj)

    def pass_time(self, seconds: float) -> None:
        """Time goes by; the agents are well."""
        self.clock.advance(seconds)
        for node in NODES_OF:
            meta = {"name": names.node_lease(node), "namespace": names.NAMESPACE}
            renewed = self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            self.put(LEASES, {"metadata": meta, "spec": {"renewTime": renewed}})

    def book(self, name: str, model: str, count: int, end: datetime) -> None:
        """A booking of alice's."""
        resource = names.CLAIM_RESOURCE if model.endswith(names.CLAIMED_MODEL) else names.GPU_RESOURCE
        spec = {"user": "alice", "model": model, "resource": resource, "count": count}
        spec |= {"start": EPOCH, "end": end}
        self.put(BOOKINGS, {"metadata": {"name": name}, "spec": spec})

    def write(self, pod: Somebody, *, gone: bool = False) -> None:
        """A pod as it is now."""
        self.pods[pod.name] = pod
        if gone:
            del self.pods[pod.name]
        builder = PodBuilder(pod.name, uid=pod.name).of(pod.user).created(pod.born)
        builder = builder.with_annotation(names.EVICTIONS, str(pod.evictions))
        builder = builder.asks(pod.gpus) if pod.gpus else builder
        builder = builder.of_a_daemon_set() if pod.stays else builder
        builder = builder.with_annotation(names.HOLD, encode_hold(pod.hold)) if pod.hold else builder
        if pod.node:
            builder = builder.on(pod.node, {"main": pod.devices} if pod.devices else None)
        more: Json = {
            "metadata": {"deletionTimestamp": pod.going} if pod.going else {},
            "spec": {"resourceClaims": [{"name": one, "resourceClaimName": one} for one in pod.claims]},
            "status": {"phase": "Running", "startTime": pod.since} if pod.node else {},
        }
        self.put(PODS, merged(builder.raw, more), gone=gone)

    def write_claim(self, claim: Claim, *, gone: bool = False) -> None:
        """A claim as it is now."""
        self.claims[claim.name] = claim
        if gone:
            del self.claims[claim.name]
        spec = claim_spec(*ASKS[claim.asks][0], count=claim.count)
        mark = {"key": names.HELD_TAINT, "operator": "Equal", "value": f"default.{claim.name}"}
        spec["devices"]["requests"][0]["exactly"]["tolerations"] = [mark]
        places = [uuid.split("-") for uuid in claim.devices]
        results = [
            {"request": "gpu", "driver": names.DRA_DRIVER, "pool": node, "device": f"gpu-{index}"}
            for _, node, index in places
        ]
        status: Json = {"reservedFor": [{"resource": "pods", "uid": uid} for uid in sorted(claim.users)]}
        status |= {"allocation": {"devices": {"results": results}}} if results else {}
        meta = {"name": claim.name, "namespace": "default"}
        self.put(RESOURCE_CLAIMS, {"metadata": meta, "spec": spec, "status": status}, gone=gone)

    # --- seeing ------------------------------------------------------------------------------------------
    def claim_of(self, uuid: str) -> Claim | None:
        """The claim that has a device; there are never two."""
        (found,) = [one for one in self.claims.values() if uuid in one.devices] or [None]
        return found

    def users_of(self, uuid: str) -> list[Somebody]:
        """The bound pods that have a device."""
        claim, bound = self.claim_of(uuid), [pod for pod in self.pods.values() if pod.node]
        return [pod for pod in bound if uuid in pod.devices or (claim and claim.name in pod.claims)]

    def expected_by(self, uuid: str) -> list[Somebody]:
        """Pods for which the device's claim is reserved, and which are not bound yet."""
        claim = self.claim_of(uuid)
        return [pod for pod in self.pods.values() if claim and pod.name in claim.users and not pod.node]

    def is_had(self, uuid: str) -> bool:
        """Whether anybody has a device: a claim, with or without pods, or a pod."""
        return bool(self.claim_of(uuid) or self.users_of(uuid))

    def kept(self, besides: str = "") -> set[str]:
        """Devices that holds keep, but for that of one pod."""
        holds = (pod.hold for pod in self.pods.values() if pod.hold and pod.name != besides)
        return {uuid for hold in holds for uuid in hold.devices}

    def missing(self, pod: Somebody) -> list[Claim]:
        """Its claims that have no devices."""
        return [self.claims[name] for name in pod.claims if not self.claims[name].devices]
