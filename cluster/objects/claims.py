"""ResourceClaims and ResourceSlices (resource.k8s.io/v1), with the fields that we read."""

from typing import Any, Final

import msgspec

from cluster import names
from cluster.objects.meta import Meta, Partial

Place = tuple[str, str]
"""(node, name of a device in its ResourceSlices)."""
Refused = tuple[str, str]
"""Why our driver would refuse a whole GPU, and a MIG device, for what is configured; empty if not."""
KNOWN_AFTER: Final = 2.0
"""Seconds after which kube-scheduler knows a DeviceTaintRule: by experience, since nothing says so."""


class Allocated(Partial, frozen=True):
    """One entry of ``status.allocation.devices.results``: a device for a request of the claim."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, Any] | None = None
    """Of a device that several claims may have: name -> amount; see ``claim_shares``."""


class Opaque(Partial, frozen=True):
    """Parameters for one driver."""

    driver: str = ""
    parameters: dict[str, Any] | None = None


class Configuration(Partial, frozen=True):
    """One entry of ``config``: of a claim, of a DeviceClass, or of ``status.allocation.devices``."""

    source: str = ""
    """``FromClass`` or ``FromClaim`` in an allocation; empty elsewhere."""
    requests: tuple[str, ...] = ()
    """Empty: all; ``<request>`` is for its alternatives, too."""
    opaque: Opaque | None = None


class AllocatedDevices(Partial, frozen=True):
    """``status.allocation.devices``."""

    results: tuple[Allocated, ...] = ()
    config: tuple[Configuration, ...] = ()


class Allocation(Partial, frozen=True):
    """``status.allocation``."""

    devices: AllocatedDevices = AllocatedDevices()


class Consumer(Partial, frozen=True):
    """One entry of ``status.reservedFor``: a pod that may use the claim."""

    uid: str = ""
    resource: str = ""


class ClaimStatus(Partial, frozen=True):
    """``status`` of a ResourceClaim; without an allocation it holds no device."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class Cel(Partial, frozen=True):
    """An expression about one device."""

    expression: str = ""


class Selector(Partial, frozen=True):
    """One entry of ``selectors``: all of a request's and of its DeviceClass's must be true."""

    cel: Cel | None = None


class DeviceToleration(Partial, frozen=True):
    """One entry of ``tolerations`` of a request."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ExactRequest(Partial, frozen=True):
    """``exactly`` of a request."""

    device_class_name: str = ""
    selectors: tuple[Selector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    capacity: dict[str, Any] | None = None
    tolerations: tuple[DeviceToleration, ...] = ()


class Alternative(ExactRequest, frozen=True):
    """One entry of ``firstAvailable`` of a request."""

    name: str = ""


class DeviceRequest(Partial, frozen=True):
    """One entry of ``spec.devices.requests``."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: tuple[Alternative, ...] = ()

    @property
    def ways(self) -> tuple[ExactRequest, ...]:
        """Each of the ways in which it can be met."""
        return (self.exactly,) if self.exactly else self.first_available


class RequestedDevices(Partial, frozen=True):
    """``spec.devices``."""

    given: tuple[DeviceRequest, ...] | None = msgspec.field(name="requests", default=None)
    """Null in the bookmarks of a watch."""
    constraints: tuple[dict[str, Any], ...] | None = None
    config: tuple[Configuration, ...] = ()

    @property
    def requests(self) -> tuple[DeviceRequest, ...]:
        """What is requested."""
        return self.given or ()


class ClaimSpec(Partial, frozen=True):
    """``spec`` of a ResourceClaim, which never changes."""

    devices: RequestedDevices = RequestedDevices()


class ResourceClaim(Partial, frozen=True):
    """A claim for devices."""

    metadata: Meta = Meta()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()
    mark: str | None = msgspec.field(name=names.HELD_TAINT, default=None)
    """What ``cluster.decide.claims.requested.tolerated`` says of it, where its tolerations are not kept. No
    field of the API's."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class TemplateSpec(Partial, frozen=True):
    """``spec`` of a ResourceClaimTemplate."""

    spec: ClaimSpec = ClaimSpec()


class ClaimTemplate(Partial, frozen=True):
    """A ResourceClaimTemplate: each pod that names it gets a claim of its own."""

    metadata: Meta = Meta()
    spec: TemplateSpec = TemplateSpec()


class ClassSpec(Partial, frozen=True):
    """``spec`` of a DeviceClass."""

    selectors: tuple[Selector, ...] = ()
    config: tuple[Configuration, ...] = ()
    extended_resource_name: str | None = None
    """Pods that ask for this extended resource get such devices, by a claim that kube-scheduler makes."""


class DeviceClass(Partial, frozen=True):
    """A DeviceClass: which devices a request for it may get."""

    metadata: Meta = Meta()
    spec: ClassSpec = ClassSpec()


class TaintedDevice(Partial, frozen=True):
    """``spec.deviceSelector`` of a DeviceTaintRule."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(Partial, frozen=True):
    """``spec`` of a DeviceTaintRule."""

    device_selector: TaintedDevice = TaintedDevice()
    taint: dict[str, Any] = msgspec.field(default_factory=dict)


class TaintRule(Partial, frozen=True):
    """A DeviceTaintRule: a taint on devices, whoever publishes them."""

    metadata: Meta = Meta()
    spec: TaintRuleSpec = TaintRuleSpec()

    def spoils(self, driver: str) -> Place | None:
        """The device that it keeps from everybody, since two claims have it; None for any other rule."""
        where = self.spec.device_selector
        if names.CONFLICT_TAINT not in (self.metadata.labels or {}) or where.driver != driver:
            return None
        return (where.pool, where.device) if where.pool and where.device else None


class Pool(Partial, frozen=True):
    """``spec.pool`` of a ResourceSlice: only slices of the highest generation count."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Partial, frozen=True):
    """``spec`` of a ResourceSlice; the devices as the API writes them."""

    driver: str = ""
    node_name: str = ""
    pool: Pool = Pool()
    devices: tuple[dict[str, Any], ...] = ()
    shared_counters: tuple[dict[str, Any], ...] = ()
    """Sets of counters which devices in other slices of the pool consume; such a slice has no devices."""


class ResourceSlice(Partial, frozen=True):
    """A part of what a driver offers on a node."""

    metadata: Meta = Meta()
    spec: SliceSpec = SliceSpec()


class ClaimedDevice(Partial, frozen=True):
    """A device that a claim has."""

    claim: str
    """Uid of the claim."""
    node: str
    device: str
    """Its name in the ResourceSlices of the node."""
    memory: int = 0
    """MiB of a share; 0 for the whole device."""


class ClaimedWay(Partial, frozen=True):
    """One of the alternatives of a claim: so many devices, all of them of these."""

    count: int
    accepted: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


class PodClaims(Partial, frozen=True):
    """What a pod asks for by its ResourceClaims, and has by them: of our driver's devices only.

    The API has it in other objects; ``cluster.cache.claims`` puts it on the pod.
    """

    count: int
    """Devices of all claims together; the fewest that will do, where nobody plans with it."""
    uids: tuple[str, ...] = ()
    """Uids of the claims that exist."""
    counts: tuple[int, ...] = ()
    """Devices of each of these."""
    names: tuple[str, ...] = ()
    """What the pod calls them: in ``spec.resourceClaims``, or by an extended resource."""
    keys: tuple[str, ...] = ()
    """Of each of ``uids`` the value that it tolerates (``cluster.decide.claims``); empty without one."""
    problem: str | None = None
    """Why it is not known which devices would do, a clause: then no pod leaves for this one."""
    accepted: frozenset[str] | None = None
    """UUIDs of the devices that would do; None where nobody plans with it, or any would do."""
    models: frozenset[str] = frozenset()
    """Models of these."""
    held: tuple[ClaimedDevice, ...] = ()
    """What is allocated to the claims."""
    reserved: tuple[str, ...] = ()
    """Uids of the claims that are reserved for the pod, until it is bound."""
    memory: int = 0
    """MiB of each device, where devices are given in shares; 0 for whole ones."""
    refused: tuple[Refused, ...] = ()
    """Of each request that our driver would refuse to give some kind of device for, as it is configured."""
    refusal: str | None = None
    """Why kube-scheduler gives it no devices, or our driver would refuse what may be chosen: a sentence;
    ``problem``, too."""
    ways: tuple[ClaimedWay, ...] = ()
    """Its alternatives, in the order in which they are tried; empty for a claim without any. The fields
    above are those of the first for which there are devices, but ``models``, which has all of them."""
    resources: tuple[str, ...] = ()
    """The extended resources by which it asks for some of them: then no booking can cover it, and nothing
    can be kept for it, since its claim is made together with its allocation."""

    @property
    def node(self) -> str | None:
        """Where the pod has everything that it asks for by claims; None while something is missing."""
        return self.held[0].node if self.held and len(self.held) == self.count else None

    @property
    def is_unclear(self) -> bool:
        """Whether kube-scheduler alone can tell which devices would do, and it would be given them."""
        return self.problem is not None and self.refusal is None

    def keys_of(self, devices: int) -> tuple[str, ...] | None:
        """For each of so many devices, all alike, the value that the claim tolerates which is to get it.

        None if that is not known.
        """
        if len(set(self.keys)) == 1:
            found = self.keys[:1] * devices
        else:
            found = tuple(
                key for key, count in zip(self.keys, self.counts, strict=False) for _ in range(count)
            )
        return found if len(found) == devices and all(found) else None

    @property
    def by_claim(self) -> tuple[tuple[str, int], ...]:
        """(Uid, devices) of each claim: other pods may have the same claims, and the same devices by them."""
        # What a single claim asks for depends on its alternatives.
        counts = (self.count,) if len(self.uids) == 1 else self.counts
        return tuple((uid, count) for uid, count in zip(self.uids, counts, strict=False) if uid)

    def way_of(self, model: str) -> ClaimedWay | None:
        """The first alternative with devices of a model; None if the claim has no alternatives, or none."""
        return next((way for way in self.ways if model in way.models), None)

    def of_model(self, model: str) -> "PodClaims":
        """The same for a pod that is to get devices of this model: by its first alternative with any."""
        way = self.way_of(model)
        if way is None:
            return self
        return msgspec.structs.replace(self, count=way.count, accepted=way.accepted, models=way.models)
