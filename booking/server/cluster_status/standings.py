"""How each GPU stands: *bookable*, *lent*, *idle though booked* or *in use*. Pure.

docs/vocabulary.md defines the four words. Here each gets its one computation, over one snapshot.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import msgspec

from booking.server.cluster_status.holder_classes import Classes
from booking.server.cluster_status.snapshot import StatusSnapshot
from cluster import names
from cluster.decide.ledger import NodeView
from cluster.decide.reserve import unused_lanes
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device, is_mixed, is_replica, is_unbookable_claim
from cluster.objects.maintenance import BlocksError, decode_blocks

Standing = Literal["bookable", "lent", "idle_though_booked", "in_use"]
Standings = Mapping[tuple[str, str], Standing]
"""(Node, UUID) -> how the device stands; none for one that is unhealthy, partitioned, or that nobody can get.
"""
STAYING: Final = frozenset({"booked", "protected", "granted"})
"""Classes of holders that no booked pod sends away."""
_ALL: Final = 1_000_000
"""More devices than a node has."""


class ModelNow(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of one model at this instant."""

    model: str
    gpus: int
    """All that are healthy and whole, or a MIG device."""
    bookable: int | None
    """GPUs that no booking has, that are not in maintenance, and that no other right keeps: a booking that
    begins now could have so many. Pods without a booking may hold some. None while that is not known."""
    lent: int
    """Held by pods without a right to stay: they leave when a booked pod needs the GPU."""
    idle_though_booked: int
    """A running booking has them, and no pod holds them."""
    in_use: int
    """Held by, or kept for, pods that stay: booked, protected or granted ones."""


def standings_of(snapshot: StatusSnapshot, classes: Classes) -> Standings:
    """How each device of a snapshot stands."""
    found: dict[tuple[str, str], Standing] = {}
    unheld: dict[tuple[str, str], list[Device]] = {}
    for name, (view, agent) in sorted(snapshot.node_snapshots.items()):
        for device in _whole(view):
            if standing := _of_holders(device, view, snapshot, classes):
                found[name, device.uuid] = standing
            elif agent == "alive" and not view.fault and not is_replica(device) and not is_mixed(device):
                unheld.setdefault((name, _model(device)), []).append(device)
    idle = _idle(snapshot, {place: len(devices) for place, devices in unheld.items()})
    for (node, model), devices in unheld.items():
        booked, away = idle[node, model], _blocked(snapshot.blocked.get(node), model, snapshot.now)
        rest = max(booked, len(devices) - away)
        found |= {(node, device.uuid): "idle_though_booked" for device in devices[:booked]}
        found |= {(node, device.uuid): "bookable" for device in devices[booked:rest]}
    return found


def models_now(
    snapshot: StatusSnapshot, standings: Standings, bookable: Mapping[str, int] | None
) -> tuple[ModelNow, ...]:
    """The number of GPUs of each model in each standing, by model.

    Args:
        snapshot: the cluster.
        standings: of its devices.
        bookable: model -> GPUs that the calendar leaves now; None while it cannot be read.
    """
    all_of: Counter[str] = Counter()
    counts: Counter[tuple[str, Standing]] = Counter()
    for name, (view, _) in snapshot.node_snapshots.items():
        for device in _whole(view):
            all_of[_model(device)] += 1
            if standing := standings.get((name, device.uuid)):
                counts[_model(device), standing] += 1
    return tuple(
        ModelNow(
            model=model,
            gpus=all_of[model],
            bookable=None if bookable is None else bookable.get(model, 0),
            lent=counts[model, "lent"],
            idle_though_booked=counts[model, "idle_though_booked"],
            in_use=counts[model, "in_use"],
        )
        for model in sorted(all_of)
    )


def _whole(view: NodeView) -> Iterator[Device]:
    """Healthy devices by index, without those that are partitioned or of claims that cannot be booked."""
    parents = {device.parent for device in view.devices}
    for device in sorted(view.devices, key=lambda one: (one.index, one.uuid)):
        if device.is_healthy and device.uuid not in parents and not is_unbookable_claim(device):
            yield device


def _model(device: Device) -> str:
    return names.model_label(device.model)


def _of_holders(
    device: Device, view: NodeView, snapshot: StatusSnapshot, classes: Classes
) -> Standing | None:
    """How a device stands by who holds it; None if nobody does, and it is kept for nobody."""
    if view.on_hold.get(device.uuid) in snapshot.pods and not view.holders(device.uuid):
        return "in_use"
    holdings = [one for one in view.holdings if device.uuid in one.devices and one.uid in snapshot.pods]
    if not holdings:
        return None
    rights = {classes.of(snapshot.pods[one.uid], one) for one in holdings}
    return "lent" if rights.isdisjoint(STAYING) else "in_use"


@dataclass(frozen=True, slots=True)
class _Unused:
    """GPUs that one running booking has on a node, beyond those of its pods there."""

    node: str | None
    """None: on any node."""
    model: str
    count: int


def _idle(snapshot: StatusSnapshot, unheld: Mapping[tuple[str, str], int]) -> Counter[tuple[str, str]]:
    """(Node, model) -> devices that bookings have there and nobody holds, at most those that nobody holds."""
    idle: Counter[tuple[str, str]] = Counter()
    for one in sorted(_unused(snapshot), key=lambda one: (one.node is None, one.node or "")):
        left = one.count
        places = (
            [(one.node, one.model)] if one.node else [key for key in sorted(unheld) if key[1] == one.model]
        )
        for place in places:
            taken = min(left, unheld.get(place, 0) - idle[place])
            idle[place] += taken
            left -= taken
    return idle


def _unused(snapshot: StatusSnapshot) -> Iterator[_Unused]:
    """What running bookings have and their pods do not; a pod outside its booking's place uses it up too."""
    held = _held(snapshot)
    running = [booking for booking in snapshot.bookings.values() if booking.is_running(snapshot.now)]
    for booking in running:
        if booking.spec.memory is None:
            yield from _unused_of(booking, held.get(booking.name, Counter()))
    for node, model, count in unused_lanes(running, held):
        yield _Unused(node, model, count)


def _unused_of(booking: Booking, held: Counter[str]) -> Iterator[_Unused]:
    left = booking.spec.count - sum(held.values())
    for place in booking.spec.places:
        count = min(left, place.count - held[place.node])
        if count > 0:
            left -= count
            yield _Unused(place.node, booking.spec.model, count)
    if left > 0 and not booking.spec.places:
        yield _Unused(None, booking.spec.model, left)


def _held(snapshot: StatusSnapshot) -> Mapping[str, Counter[str]]:
    """Booking -> node -> devices that its pods hold there, or that are kept for them."""
    found: dict[str, Counter[str]] = {}
    for name, (view, _) in snapshot.node_snapshots.items():
        by_claims: set[tuple[str, str]] = set()
        for one in view.holdings:
            if booking := snapshot.cover.get(one.uid):
                theirs = {(part.claim, uuid) for uuid, part in one.devices.items() if part.claim}
                twice = len(theirs & by_claims)  # by another pod of the same claim
                by_claims |= theirs
                count = len(one.devices) - twice + sum(one.unknown.values())
                found.setdefault(booking.name, Counter())[name] += count
        for uid, count in Counter(view.on_hold.values()).items():
            if booking := snapshot.cover.get(uid):
                found.setdefault(booking.name, Counter())[name] += count
    return found


def _blocked(text: str | None, model: str, now: datetime) -> int:
    """Devices of a model that are in maintenance on a node; all of them if its annotation is unreadable."""
    try:
        blocks = decode_blocks(text) if text else ()
    except BlocksError:
        return _ALL
    return sum(
        _ALL if block.count is None else block.count
        for block in blocks
        if block.start <= now < block.end and block.model in {None, model}
    )
