"""A pod's GPU request, read once per decision; all decisions about a pod start here."""

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from cluster import names
from cluster.decide.ledger.holds import standing_hold
from cluster.decide.node_fit import tolerates_cordon
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims, Refused
from cluster.objects.demand import demand
from cluster.objects.device_selector import DeviceSelector, device_selector_of
from cluster.objects.hold import Hold
from cluster.objects.pods import ContainerNeed, Pod, container_needs
from cluster.objects.reservation_pods import reads_its_gpus, reservation_of
from cluster.objects.share_request import ShareAmount, ShareNeed, ShareRequest, share_request_of

RequestKey = tuple[object, ...]
ANY_DEVICE: Final = DeviceSelector()
"""No requirement."""
NONE_ALLOCATED: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A pod's needs, and its requirements for the devices."""

    needs: tuple[ContainerNeed, ...]
    demand: dict[str, int]
    """Resource name -> the most devices that the pod holds at one time."""
    selector: DeviceSelector = ANY_DEVICE
    """Which devices the pod accepts."""
    uid: str = ""
    """The pod's uid, by which devices on hold for it are recognized."""
    hold: Hold | None = None
    """The devices on hold for the pod: it is given these or none."""
    priority: int = 0
    tolerates_cordon: bool = False
    """Whether it may be placed on a cordoned node."""
    share: ShareRequest | None = None
    """The shares that it asks for; None if it asks for whole devices only."""
    allocated_on: str | None = None
    """The node on which its claims have all of its devices already: it needs no others."""
    allocated: frozenset[str] = NONE_ALLOCATED
    """What these devices are called in its ResourceSlices."""
    claims: frozenset[str] = NONE_ALLOCATED
    """Uids of these claims."""
    joined: frozenset[str] = NONE_ALLOCATED
    """Those of ``allocated`` that the pod has by a claim which is not for it alone."""
    spoiled: frozenset[str] = NONE_ALLOCATED
    """Those of ``allocated`` that kube-scheduler gives to nobody any more, since two claims have them."""
    refused: tuple[Refused, ...] = ()
    """Why the driver would refuse to give devices for its claims, as ``PodClaims`` has it."""
    sees_by_annotation: bool = False
    """Whether its containers with shares learn from annotations which GPUs these are of."""
    reserves: bool = False
    """Whether it is a reservation pod: then its selector names a numbered GPU."""
    only: frozenset[str] | None = None
    """UUIDs: the only devices of which it may have shares, since its booking has them there; None: any."""
    never: frozenset[str] = frozenset()
    """UUIDs of devices of which it may have no share, since other bookings have theirs there."""

    @property
    def is_confined(self) -> bool:
        """Whether bookings say where its shares may be."""
        return self.only is not None or bool(self.never)

    def may_share(self, uuid: str) -> bool:
        """Whether bookings allow it a share of this device."""
        return uuid not in self.never and (self.only is None or uuid in self.only)

    @property
    def models(self) -> frozenset[str]:
        """Models that the pod accepts, in label form; empty for any."""
        return self.selector.models

    @property
    def devices(self) -> int:
        """How many devices it needs, whatever they are."""
        return sum(self.demand.values())

    @property
    def takes(self) -> dict[str, int]:
        """Resource -> the most devices that nobody can have whole while the pod has what it needs."""
        return {self.resource: self.devices} if self.share else self.demand

    @property
    def resource(self) -> str:
        """The resource of the whole devices of which it has shares, if it has any."""
        return names.CLAIM_RESOURCE if self.is_by_claims else names.GPU_RESOURCE

    @property
    def mixes(self) -> bool:
        """Whether its devices may be of several models: it lists several models or UUIDs, or has a hold.

        Work does not run well on GPUs of which one is half as large or fast as the others, and users do not
        expect that unless they asked for it. Of what a pod asks for by claims kube-scheduler chooses.
        """
        is_free = self.hold is not None or self.is_by_claims
        return len(self.models) > 1 or bool(self.selector.uuids) or is_free

    @property
    def is_by_claims(self) -> bool:
        """Whether it asks by claims: then kube-scheduler chooses the devices."""
        return names.CLAIM_RESOURCE in self.demand

    def spread(self) -> "GpuRequest":
        """The same, with its shares on the GPUs with the most room; itself without shares."""
        return replace(self, share=msgspec.structs.replace(self.share, spreads=True)) if self.share else self

    @property
    def key(self) -> RequestKey:
        """Equal for two pods without a hold or a nomination: every node has the same answer for both."""
        shares = self.share.kind if self.share else None
        flags = self.tolerates_cordon, self.sees_by_annotation, self.reserves
        where = (self.only, self.never) if self.is_confined else None
        spoiled = (self.spoiled, self.claims) if self.spoiled else None
        claims = (self.allocated_on, self.allocated, self.joined, spoiled) if self.allocated_on else None
        of_claims = claims, self.refused
        return (*self.demand.items(), self.selector, self.priority, flags, shares, where, of_claims)

    def competes_with(self, other: "GpuRequest") -> bool:
        """Whether one device could serve either of the two."""
        return not self.demand.keys().isdisjoint(other.demand) and self.selector.may_overlap(other.selector)


def gpu_request_of(pod: Pod, booking: Booking | None = None) -> GpuRequest:
    """The pod's request.

    Args:
        pod: any pod.
        booking: the booking that covers it now, whose model it then gets; None if none does.

    Raises:
        QuantityError: a GPU amount that is not a whole number (the API server refuses those).
    """
    pod = with_model(pod, booking.spec.model) if booking else pod
    needs, reservation, selector = container_needs(pod), reservation_of(pod), device_selector_of(pod)
    is_sharing = any(need.resource == names.SHARED_RESOURCE for need in needs)
    share = share_request_of(pod) if is_sharing else None
    sees_by_annotation = share is not None and reads_its_gpus(pod, (need.name for need in share.needs))
    if reservation:
        selector = replace(selector, uuids=frozenset({reservation.number}))
    return GpuRequest(
        needs=needs,
        demand=demand(needs),
        selector=replace(selector, models=frozenset({booking.spec.model})) if booking else selector,
        uid=pod.metadata.uid,
        hold=standing_hold(pod),
        priority=pod.spec.priority or 0,
        tolerates_cordon=tolerates_cordon(pod),
        share=share or _claimed_share(pod),
        sees_by_annotation=sees_by_annotation,
        reserves=reservation is not None,
        allocated_on=pod.claims.node if pod.claims else None,
        allocated=frozenset(one.device for one in pod.claims.held) if pod.claims else NONE_ALLOCATED,
        joined=_joined(pod, pod.claims) if pod.claims else NONE_ALLOCATED,
        claims=frozenset(pod.claims.uids) if pod.claims else NONE_ALLOCATED,
        refused=pod.claims.refused if pod.claims else (),
    )


def _joined(pod: Pod, claims: PodClaims) -> frozenset[str]:
    """What other pods may have together with it: its own claims tolerate its uid, others something else."""
    own = {uid for uid, key in zip(claims.uids, claims.keys, strict=False) if key == pod.metadata.uid}
    return frozenset(one.device for one in claims.held if one.claim not in own)


def _claimed_share(pod: Pod) -> ShareRequest | None:
    """The shares that a pod asks for by claims. Where devices are given whole it gets whole ones for them."""
    if pod.claims is None or not pod.claims.memory:
        return None
    amount = ShareAmount(memory=pod.claims.memory)
    # kube-scheduler may give several of one device.
    numbers = range(pod.claims.count)
    return ShareRequest(
        tuple(ShareNeed(name=f"{one}", kind="app", count=1, amount=amount) for one in numbers)
    )


def with_model(pod: Pod, model: str) -> Pod:
    """The pod as it asks for devices of this model, where its claim has alternatives; else itself."""
    if pod.claims is None or not pod.claims.ways:
        return pod
    return msgspec.structs.replace(pod, claims=pod.claims.of_model(model))
