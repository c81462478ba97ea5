"""Whether the shares of a pod fit on GPUs of a node: the answer of ``shares.place`` without the place.

Filter asks this of every node, and asks it several times of a node without room, to say why. So it is decided
from what a node offers (``Offer``), which is the same for all pods, and only a pod with shares in several
containers, or one that names GPUs, needs a search.
"""

from dataclasses import replace
from typing import Final

from cluster.decide.ledger.amounts import Room
from cluster.decide.ledger.offers import Offer
from cluster.decide.request import GpuRequest
from cluster.decide.shares import MODES, place
from cluster.objects.inventory import Device, SharingMode
from cluster.objects.share_request import ShareAmount, Slot

ENDLESS: Final = 2**31
"""Slots."""
ANY_MODE: Final[tuple[SharingMode | None, ...]] = (None,)


def fits(request: GpuRequest, offer: Offer, *, any_mode: bool = False, any_slots: bool = False) -> bool:
    """Whether the shares of a pod fit on GPUs of an offer. Its hold does not matter.

    Args:
        request: of a pod with shares.
        offer: the GPUs.
        any_mode: as if all GPUs were offered in every mode.
        any_slots: as if no GPU lacked slots.
    """
    share = request.share
    if share is None:
        return False
    if request.selector.is_by_model:
        modes = ANY_MODE if any_mode else MODES if share.mode is None else (share.mode,)
        how = modes, any_slots
        for need in share.needs:
            if not _enough(request, (need.amount,), offer, how, count=need.count):
                return False
        if len(share.needs) == 1:
            return True
        amounts = tuple(need.amount for need in share.needs)
        if share.width == 1 and _enough(request, amounts, offer, how):
            return True
    takes = request.selector.takes

    def changed(room: Room) -> Room:
        modes = frozenset(MODES) if any_mode else room.modes
        return replace(room, modes=modes, slots=ENDLESS if any_slots else room.slots)

    found: dict[str, tuple[tuple[Device, Room], ...]] = {}
    for model, rooms in offer.rooms.items():
        found[model] = tuple((device, changed(room)) for device, room in rooms if takes(device))
    return place(request, found) is not None


def _enough(
    request: GpuRequest,
    amounts: tuple[ShareAmount, ...],
    offer: Offer,
    how: tuple[tuple[SharingMode | None, ...], bool],
    *,
    count: int = 1,
) -> bool:
    """Whether so many GPUs have room for a slot of each of these amounts.

    Args:
        request: of a pod that accepts all GPUs of a model or none.
        amounts: of which each GPU must have room for all together.
        offer: the GPUs.
        how: the modes that are tried, None for one that every GPU has; whether slots do not matter.
        count: how many different GPUs, of one model unless the pod mixes models.
    """
    modes, any_slots = how
    takes, slots = request.selector.takes, 0 if any_slots else len(amounts)
    fixed, cores = amounts[0].memory, amounts[0].cores
    for amount in amounts[1:]:
        fixed, cores = fixed + amount.memory if fixed and amount.memory else 0, cores + amount.cores
    rooms = (offer.best if count == 1 else offer.rooms).values()
    suitable = [found for found in rooms if found and takes(found[0][0])]
    for mode in modes if suitable else ():
        mixed = 0
        for found in suitable:
            here = 0
            for device, room in found:
                if (
                    (fixed or _memory(amounts, device)) <= room.memory
                    and cores <= room.compute
                    and slots <= room.slots
                    and (mode is None or mode in room.modes)
                ):
                    here += 1
                    if here >= count:
                        return True
            mixed += here
        if mixed >= count and request.mixes:
            return True
    return False


def _memory(amounts: tuple[ShareAmount, ...], device: Device) -> int:
    return sum(Slot((amount,)).memory_on(device) for amount in amounts)
