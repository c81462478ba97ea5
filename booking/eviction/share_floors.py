"""What pods have of each GPU that may be shared: kept between passes, for the search of room for a share."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from booking.eviction.holder import Holder
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, DeviceUse, Holding
from cluster.objects.inventory import Device
from cluster.objects.share_request import Slot

NEVER_LATER: Final = 2**63
"""Microseconds since 1970: later than any instant."""
SIZES: Final = 4
"""Number of sizes of shares for which bounds are kept."""
ROUNDED: Final = 16
"""Thousandths by which what pods have of a GPU is rounded down together, at most: one for each slot."""


class OfModel(Protocol):
    """The holders of the devices of one model on one node."""

    @property
    def all(self) -> Mapping[str, Holder]:
        """Uid -> holder of devices, or of shares of them."""
        ...


Bound = tuple[int, int]
"""Thousandths of a GPU whose work is lost at least, and the instant after which it was not saved."""
ModelsHolders = Mapping[str, OfModel]
"""Model -> its holders."""


@dataclass(frozen=True, slots=True)
class ShareFloor:
    """One GPU, and the pods that have any of it."""

    device: Device
    stays: DeviceUse
    """What those have of it of whom it is known that they may not be evicted now."""
    parts: tuple[tuple[Holder, Holding], ...]
    """The other pods, and what each has of it."""
    free: int
    """MiB that nobody has but who is leaving already; 0 if somebody has it whole."""
    most: int
    """MiB that those leave who stay."""
    offered: int
    """MiB that it offers to shares, above 0."""
    latest: int
    """The work of none of the others who stay so far is saved later than this: microseconds since 1970."""

    def least(self, memory: int) -> int | None:
        """Thousandths of the GPU whose work is lost at least for so many MiB; None if too many stay."""
        if memory > self.most:
            return None
        missing = memory - self.free
        return 0 if missing <= 0 else max(0, 1000 * missing // self.offered - ROUNDED)


class ShareFloors:
    """The GPUs of each node and model, as they were when last asked for."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[ModelsHolders, tuple[ShareFloor, ...]]] = {}
        self._bounds: dict[tuple[str, Slot], ShareBounds] = {}

    def of(self, view: NodeView, by_model: ModelsHolders, model: str) -> tuple[ShareFloor, ...]:
        """The GPUs of a model on a node; ``by_model``: the same object as long as nothing has changed."""
        known = self._known.get((view.name, model))
        if known is None or known[0] is not by_model:
            known = self._known[view.name, model] = by_model, tuple(_floors(view, by_model, model))
        return known[1]

    def bounds(self, model: str, slot: Slot) -> "ShareBounds":
        """What each node loses at least for a share of this size; those of the last few sizes are kept."""
        found = self._bounds.pop((model, slot), None) or ShareBounds(self, model, slot)
        self._bounds[model, slot] = found
        if len(self._bounds) > SIZES:
            del self._bounds[next(iter(self._bounds))]
        return found


class ShareBounds:
    """For a share of one size, what each node loses at least for it: kept until something on it changes."""

    def __init__(self, floors: ShareFloors, model: str, slot: Slot) -> None:
        self._floors, self._model, self._slot = floors, model, slot
        self._known: dict[str, tuple[ModelsHolders, tuple[Bound, ...]]] = {}

    def of(self, view: NodeView, by_model: ModelsHolders) -> tuple[Bound, ...]:
        """The bounds of the node's GPUs that may be the least; none if the share does not fit on any."""
        known = self._known.get(view.name)
        if known is None or known[0] is not by_model:
            found = self._floors.of(view, by_model, self._model)
            known = self._known[view.name] = by_model, tuple(_least(found, self._slot))
        return known[1]


def _least(floors: Iterable[ShareFloor], slot: Slot) -> Iterator[Bound]:
    """Without those that lose no less than another one at any time."""
    bounds = ((floor.least(slot.memory_on(floor.device)), -floor.latest) for floor in floors)
    before: int | None = None
    for part, latest in sorted((part, latest) for part, latest in bounds if part is not None):
        if before is None or latest < before:
            before = latest
            yield part, -latest


def _floors(view: NodeView, by_model: ModelsHolders, model: str) -> Iterator[ShareFloor]:
    holders = by_model[model].all if model in by_model else {}
    for device in view.shareable_by_model.get(model, ()) if model in by_model else ():
        if not device.is_healthy:
            continue
        stays, held, parts = NO_USE, NO_USE, list[tuple[Holder, Holding]]()
        for holding in view.holdings:
            part = holding.devices.get(device.uuid)
            if part is None:
                continue
            holder = holders.get(holding.uid)
            if holder is None or not (holder.evictable or holder.leaves):
                stays = stays.plus(part)
            else:
                parts.append((holder, part))
            if holder is None or not holder.leaves:
                held = held.plus(part)
        saved = [holder.work.latest for holder, _ in parts if not holder.leaves]
        latest = max((NEVER_LATER if one is None else one for one in saved), default=NEVER_LATER)
        yield ShareFloor(
            device=device,
            stays=stays,
            parts=tuple(parts),
            free=held.room_on(device).memory,
            most=stays.room_on(device).memory,
            offered=max(1, device.share.memory if device.share else 0),
            latest=latest,
        )
