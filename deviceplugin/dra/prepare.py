"""Whether a claim's devices may come into containers now: the state table of NodePrepareResources. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster import names
from cluster.objects.claims import AllocatedDevices, Opaque, ResourceClaim
from deviceplugin.dra.prepared import Prepared, PreparedClaim, PreparedDevice


@dataclass(frozen=True, kw_only=True)
class ClaimReference:
    """The claim that the kubelet names."""

    uid: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """``namespace/name``, for people."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What this driver can give on this node."""

    driver: str
    pool: str
    devices: Mapping[str, str]
    """Name -> UUID, of devices whose device nodes exist."""
    unhealthy: Mapping[str, str]
    """UUID -> why it is unhealthy, of those that a new pod must not get."""
    taken: frozenset[str] = frozenset()
    """UUIDs of devices that living pods have by the device plugin: the node gave them in another way."""
    is_known: bool = True
    """Whether the devices have been read since the agent's start."""


@dataclass(frozen=True)
class Refusal:
    """Why the claim is not prepared, for people; the kubelet tries again later."""

    message: str


@dataclass(frozen=True)
class Busy:
    """Another claim still has one of the devices, or they are not known yet: worth waiting a moment."""

    message: str


def prepare(
    wanted: ClaimReference, claim: ResourceClaim | None, prepared: Prepared, offer: Offer
) -> PreparedClaim | Refusal | Busy:
    """What to answer.

    Args:
        wanted: by the kubelet.
        claim: as the API server has it; None if it has none of that name.
        prepared: what is prepared on this node.
        offer: the devices.
    """
    if wanted.uid in prepared:
        return prepared[wanted.uid]
    if claim is None or claim.metadata.uid != wanted.uid:
        return Refusal(f"The claim {wanted.key} is gone, or is another one of that name.")
    if claim.status.allocation is None:
        return Refusal(f"The claim {wanted.key} is not allocated.")
    devices = claim.status.allocation.devices
    if message := _unsupported(devices, offer.driver):
        return Refusal(f"{message}, in the claim {wanted.key}.")
    found: list[PreparedDevice] = []
    for result in devices.results:
        if (result.driver, result.pool) != (offer.driver, offer.pool):
            continue
        uuid = offer.devices.get(result.device)
        if uuid is None:
            return _missing(result.device, offer)
        found.append(
            PreparedDevice(
                request=result.request,
                device=result.device,
                uuid=uuid,
                share=result.share_id,
                is_admin=result.admin_access,
            )
        )
    ours = PreparedClaim(uid=wanted.uid, namespace=wanted.namespace, name=wanted.name, devices=tuple(found))
    return _taken(ours, prepared, offer) or _unhealthy(ours, offer) or ours


def _missing(device: str, offer: Offer) -> Refusal | Busy:
    if not offer.is_known:
        return Busy(f"The driver has not answered yet: it is not known whether the node has {device}.")
    return Refusal(f"This node has no device {device}, or none of its device nodes.")


def _taken(ours: PreparedClaim, prepared: Prepared, offer: Offer) -> Busy | None:
    """A device that another claim has alone, or a pod by the device plugin (law L1)."""
    exclusive = {one.uuid for one in ours.devices if not one.is_admin}
    for device in ours.devices:
        if device.uuid in exclusive & offer.taken:
            return Busy(f"{device.device} is still in use by a pod that has it by {names.GPU_RESOURCE}.")
    for claim in prepared.values():
        for device in claim.devices:
            if device.uuid in exclusive and not device.is_admin:
                return Busy(f"{device.device} is still in use by the claim {claim.key}.")
    return None


def _unhealthy(ours: PreparedClaim, offer: Offer) -> Refusal | None:
    for device in ours.devices:
        if device.uuid in offer.unhealthy and not device.is_admin:
            return Refusal(f"{device.device} gets no new pods. {offer.unhealthy[device.uuid]}.")
    return None


def _unsupported(devices: AllocatedDevices, driver: str) -> str | None:
    """What the claim asks of the device beyond having it, which nothing here would give."""
    for one in devices.config:
        if one.opaque and one.opaque.driver == driver and (message := _unknown_parameters(one.opaque)):
            return message
    if any(result.share_id for result in devices.results if result.driver == driver):
        return "Shares of a device are not given by claims"
    return None


def _unknown_parameters(opaque: Opaque) -> str | None:
    parameters = dict(opaque.parameters or {})
    kind = parameters.pop("kind", None)
    parameters.pop("apiVersion", None)
    if not parameters.get("sharing"):  # absent, and so without effect
        parameters.pop("sharing", None)
    if kind not in {"GpuConfig", "MigDeviceConfig"}:
        return f"The driver {opaque.driver} here knows no configuration of kind {kind}"
    if parameters:
        return f"The driver {opaque.driver} here gives no {min(parameters)} of a {kind}"
    return None
