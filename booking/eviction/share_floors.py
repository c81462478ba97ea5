"""What pods have of each GPU that may be shared, where a share finds room, and where it loses little: kept.

Most nodes are far from the cheapest. So what a node loses at least is first read from its pods, which is
quick, and only where that is little, from their holders.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from weakref import ref

from booking.eviction.holder import Holder
from cluster.decide.available import shares_on
from cluster.decide.eviction.costs import saved_at_most
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, DeviceUse, Holding
from cluster.decide.request import GpuRequest, RequestKey
from cluster.decide.share_fit import fits
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminating
from cluster.objects.share_request import Slot

NEVER_LATER: Final = 2**63
"""Microseconds since 1970: later than any instant."""
SIZES: Final = 4
"""Number of sizes of shares for which bounds are kept."""
KINDS: Final = 4
"""Number of kinds of requests for which the nodes are kept."""
ROUNDED: Final = 16
"""Thousandths by which what pods have of a GPU is rounded down together, at most: one for each slot."""


class OfModel(Protocol):
    """The holders of the devices of one model on one node."""

    @property
    def all(self) -> Mapping[str, Holder]:
        """Uid -> holder of devices, or of shares of them."""
        ...


class OfNode(Protocol):
    """The holders on one node: the same object as long as nothing has changed."""

    @property
    def view(self) -> NodeView:
        """The node."""
        ...

    @property
    def pods(self) -> tuple[Pod | None, ...]:
        """The pods of ``view.holdings``, in that order; None for those that only the node's agent knows."""
        ...

    @property
    def by_model(self) -> Mapping[str, OfModel]:
        """Model -> its holders."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether ``by_model`` is known already."""
        ...

    @property
    def floors(self) -> MutableMapping[str, tuple["ShareFloor", ...]]:
        """Model -> what ``floors_of`` has found."""
        ...


Bound = tuple[int, int]
"""Thousandths of a GPU whose work is lost at least, and the instant after which it was not saved."""
Bounds = tuple[Bound, ...]
"""Those of one node's GPUs that may be the least; none if the share does not fit on any."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    mates: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    """Uid of one of ``parts`` -> the other pods that have the same by the same claims: all leave, or none."""
    latest: int
    """The work of none of the others who stay so far is saved later than this: microseconds since 1970."""

    def least(self, memory: int) -> int | None:
        """Thousandths of the GPU whose work is lost at least for so many MiB; None if too many stay."""
        if memory > self.most:
            return None
        return _part(memory - self.free, self.offered)


def floors_of(holders: OfNode, model: str) -> tuple[ShareFloor, ...]:
    """The GPUs of a model on a node."""
    found = holders.floors.get(model)
    if found is None:
        found = holders.floors[model] = tuple(_floors(holders.view, holders.by_model, model))
    return found


class ShareBounds:
    """What each node loses at least for shares of the last few sizes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Slot], dict[str, tuple[ref[OfNode], Bounds]]] = {}
        """Weak references: a size that nobody asks for any more keeps nothing else in memory."""

    def of(self, nodes: Mapping[str, OfNode], model: str, slot: Slot) -> Iterator[tuple[str, Bounds]]:
        """(node, its bounds), which may be lower than they would be by its holders."""
        before = self._known.pop((model, slot), {})
        self._known[model, slot] = found = {
            name: known
            if (known := before.get(name)) and known[0]() is holders
            else (ref(holders), _bounds(holders, model, slot))
            for name, holders in nodes.items()
        }
        if len(self._known) > SIZES:
            del self._known[next(iter(self._known))]
        return ((name, bounds) for name, (_, bounds) in found.items())

    def by_holders(self, holders: OfNode, model: str, slot: Slot) -> Bounds:
        """The bounds of one node by its holders; from now on ``of`` returns these."""
        found = tuple(_least(_by_floors(holders, model, slot)))
        self._known.setdefault((model, slot), {})[holders.view.name] = ref(holders), found
        return found


def _bounds(holders: OfNode, model: str, slot: Slot) -> Bounds:
    if holders.is_read:
        return tuple(_least(_by_floors(holders, model, slot)))
    return tuple(_least(_by_pods(holders.view, holders.pods, model, slot)))


def _by_floors(holders: OfNode, model: str, slot: Slot) -> Iterator[Bound]:
    for floor in floors_of(holders, model):
        part = floor.least(slot.memory_on(floor.device))
        if part is not None:
            yield part, floor.latest


def _by_pods(view: NodeView, pods: Iterable[Pod | None], model: str, slot: Slot) -> Iterator[Bound]:
    """As if every pod could be evicted, and what those have who are terminating were free."""
    devices = view.shareable_by_model.get(model, ())
    if not devices or view.fault or view.unknown:
        return
    latest: dict[str, int] = {}
    left: set[str] = set()
    for holding, pod in zip(view.holdings, pods, strict=True):
        if pod is None:
            continue
        if is_terminating(pod):
            left.update(holding.devices)
            continue
        saved = saved_at_most(pod)
        for uuid in holding.devices:
            latest[uuid] = NEVER_LATER if saved is None else max(saved, latest.get(uuid, 0))
    for device in devices:
        uuid, memory, offered = device.uuid, slot.memory_on(device), _offered(device)
        if not device.is_healthy or memory > offered:
            continue
        use = view.held.get(uuid, NO_USE)
        free = 0 if use.whole else offered - use.memory
        yield 0 if uuid in left else _part(memory - free, offered), latest.get(uuid, NEVER_LATER)


def _part(missing: int, offered: int) -> int:
    """Thousandths of a GPU that pods have at least who leave for so many MiB."""
    return 0 if missing <= 0 else max(0, 1000 * missing // offered - ROUNDED)


def _offered(device: Device) -> int:
    return max(1, device.share.memory if device.share else 0)


def _least(bounds: Iterable[Bound]) -> Iterator[Bound]:
    """Without those that lose no less than another one at any time."""
    before: int | None = None
    for part, latest in sorted((part, -latest) for part, latest in bounds):
        if before is None or latest < before:
            before = latest
            yield part, -latest


def _floors(view: NodeView, by_model: Mapping[str, OfModel], model: str) -> Iterator[ShareFloor]:
    holders = by_model[model].all if model in by_model else {}
    for device in view.shareable_by_model.get(model, ()) if model in by_model else ():
        if not device.is_healthy:
            continue
        stays, held, parts = NO_USE, NO_USE, list[tuple[Holder, Holding]]()
        mates: dict[str, tuple[Holder, ...]] = {}
        for part, uids in _together(view, device.uuid):
            known = [holders.get(uid) for uid in uids]
            theirs = [one for one in known if one and (one.evictable or one.leaves)]
            if len(theirs) < len(known):
                stays = stays.plus(part)
            else:
                parts.append((theirs[0], part))
                if len(theirs) > 1:
                    mates[theirs[0].uid] = tuple(theirs[1:])
            if not all(one and one.leaves for one in known):
                held = held.plus(part)
        having = [one for holder, _ in parts for one in (holder, *mates.get(holder.uid, ()))]
        saved = [holder.work.latest for holder in having if not holder.leaves]
        latest = max((NEVER_LATER if one is None else one for one in saved), default=NEVER_LATER)
        yield ShareFloor(
            device=device,
            stays=stays,
            parts=tuple(parts),
            mates=mates,
            free=held.room_on(device).memory,
            most=stays.room_on(device).memory,
            offered=_offered(device),
            latest=latest,
        )


def _together(view: NodeView, uuid: str) -> Iterator[tuple[Holding, list[str]]]:
    """What is held of a device, and uids of the pods that have it together, by one claim."""
    of_claim: dict[str, list[str]] = {}
    found: list[tuple[Holding, list[str]]] = []
    for holding in view.holdings:
        part = holding.devices.get(uuid)
        if part is None:
            continue
        uids = of_claim.setdefault(part.claim or holding.uid, [])
        if not uids:
            found.append((part, uids))
        uids.append(holding.uid)
    yield from found


class ShareRooms:
    """For the last few kinds of requests, what was found about each node."""

    def __init__(self) -> None:
        self._known: dict[RequestKey, dict[str, tuple[ref[NodeView], bool]]] = {}
        """Weak references: a kind that nobody asks for any more keeps no old view in memory."""

    def of(self, request: GpuRequest, views: Mapping[str, NodeView]) -> list[str]:
        """The nodes that may have room, sorted; the others have none.

        Args:
            request: of a pod with shares, without a hold.
            views: node -> its devices; the same object as long as nothing has changed.
        """
        before = self._known.pop(request.key, {})
        self._known[request.key] = found = {
            name: known
            if (known := before.get(name)) and known[0]() is view
            else (ref(view), _may_have_room(request, view))
            for name, view in views.items()
        }
        if len(self._known) > KINDS:
            del self._known[next(iter(self._known))]
        return sorted(name for name, (_, may) in found.items() if may)


def _may_have_room(request: GpuRequest, view: NodeView) -> bool:
    if view.fault or view.unknown or not shares_on(request, view):
        return False
    return bool(view.on_hold) or (not _is_full(request, view) and fits(request, view.unreserved_offer))


def _is_full(request: GpuRequest, view: NodeView) -> bool:
    """Whether no device has the memory for the least of the shares: quicker to see than whether all fit."""
    amounts = [need.amount for need in request.share.needs] if request.share else ()
    for device in view.devices:
        use = view.held.get(device.uuid)
        if device.share and (use is None or not use.whole):
            free = device.share.memory - (use.memory if use else 0)
            if any(amount.memory_on(device) <= free for amount in amounts):
                return False
    return True
