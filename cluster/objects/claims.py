"""ResourceClaims and ResourceSlices (resource.k8s.io/v1), with the fields that we read."""

from typing import Any

import msgspec

from cluster.objects.meta import Meta, Partial


class Allocated(Partial, frozen=True):
    """One entry of ``status.allocation.devices.results``: a device for a request of the claim."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    share_id: str | None = msgspec.field(name="shareID", default=None)


class Opaque(Partial, frozen=True):
    """Parameters for one driver."""

    driver: str = ""
    parameters: dict[str, Any] | None = None


class Configuration(Partial, frozen=True):
    """One entry of ``status.allocation.devices.config``."""

    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


class AllocatedDevices(Partial, frozen=True):
    """``status.allocation.devices``."""

    results: tuple[Allocated, ...] = ()
    config: tuple[Configuration, ...] = ()


class Allocation(Partial, frozen=True):
    """``status.allocation``."""

    devices: AllocatedDevices = AllocatedDevices()


class ClaimStatus(Partial, frozen=True):
    """``status`` of a ResourceClaim; without an allocation it holds no device."""

    allocation: Allocation | None = None


class ResourceClaim(Partial, frozen=True):
    """A claim for devices."""

    metadata: Meta = Meta()
    status: ClaimStatus = ClaimStatus()


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


class ResourceSlice(Partial, frozen=True):
    """A part of what a driver offers on a node."""

    metadata: Meta = Meta()
    spec: SliceSpec = SliceSpec()
