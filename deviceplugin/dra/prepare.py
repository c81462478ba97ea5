"""Whether a claim's devices may come into containers now: the state table of NodePrepareResources. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cluster import names
from cluster.decide.claims.configuration import configured, problem_of
from cluster.objects.claim_shares import shared_memory
from cluster.objects.claims import Configuration, ResourceClaim
from cluster.objects.inventory import MIG_UUID
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
    shares: Mapping[str, int] = field(default_factory=dict)
    """UUID -> MiB for the shares of all claims, of devices that can be shared."""
    taken: frozenset[str] = frozenset()
    """UUIDs of devices that living pods have by the device plugin: the node gave them in another way."""
    is_known: bool = True
    """Whether the devices have been read since the agent's start."""
    closed: str | None = None
    """Why nothing is prepared anew, for people: somebody else gives out the node's GPUs."""


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
                memory=shared_memory(claim, result),
                is_admin=result.admin_access,
            )
        )
    if message := _unsupported(found, devices.config, offer.driver):
        return Refusal(f"{message}, in the claim {wanted.key}.")
    ours = PreparedClaim(uid=wanted.uid, namespace=wanted.namespace, name=wanted.name, devices=tuple(found))
    return _closed(ours, offer) or _taken(ours, prepared, offer) or _unhealthy(ours, offer) or ours


def _missing(device: str, offer: Offer) -> Refusal | Busy:
    if not offer.is_known:
        return Busy(f"The driver has not answered yet: it is not known whether the node has {device}.")
    return Refusal(f"This node has no device {device}, or none of its device nodes.")


def _closed(ours: PreparedClaim, offer: Offer) -> Refusal | None:
    if offer.closed is None or all(device.is_admin for device in ours.devices):
        return None
    return Refusal(f"The claim {ours.key} is not prepared. {offer.closed}")


def _taken(ours: PreparedClaim, prepared: Prepared, offer: Offer) -> Busy | None:
    """A device that another claim has, or a pod by the device plugin, unless all have shares (law L1)."""
    wanted = [one for one in ours.devices if not one.is_admin]
    for device in wanted:
        if device.uuid in offer.taken:
            return Busy(f"{device.device} is still in use by a pod that has it by {names.GPU_RESOURCE}.")
    had = [(claim, one) for claim in prepared.values() for one in claim.devices if not one.is_admin]
    for device in wanted:
        others = [(claim, one) for claim, one in had if one.uuid == device.uuid]
        for claim, other in others:
            if not (device.memory and other.memory):
                return Busy(f"{device.device} is still in use by the claim {claim.key}.")
        asked = sum(one.memory for one in wanted if one.uuid == device.uuid)
        left = offer.shares.get(device.uuid, 0) - sum(one.memory for _, one in others)
        if device.memory and asked > left:
            users = " and ".join(sorted({claim.key for claim, _ in others})) or "no other claim"
            return Busy(
                f"{device.device} has {max(left, 0)} MiB left beside {users}, and {asked} are claimed."
            )
    return None


def _unhealthy(ours: PreparedClaim, offer: Offer) -> Refusal | None:
    for device in ours.devices:
        if device.uuid in offer.unhealthy and not device.is_admin:
            return Refusal(f"{device.device} gets no new pods. {offer.unhealthy[device.uuid]}.")
    return None


def _unsupported(
    found: Iterable[PreparedDevice], entries: Iterable[Configuration], driver: str
) -> str | None:
    """What the claim asks of a device beyond having it, which nothing here would give."""
    for one in found:
        is_mig = one.uuid.startswith(MIG_UUID)
        parameters = configured(one.request, entries, driver, is_mig=is_mig)
        if parameters is not None and (message := problem_of(parameters, driver, is_mig=is_mig)):
            return message
    return None
