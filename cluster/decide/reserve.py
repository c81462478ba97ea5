"""How many devices running bookings will need that their pods do not have yet, node by node. Pure.

The booking server's plan says where (``spec.places``); pods that run elsewhere use up the booking, too.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.objects.bookings import Booking, BookingSpec

Reserve = Mapping[str, Mapping[str, int]]
"""Node -> model -> number of devices."""


def reserve(
    bookings: Iterable[Booking],
    cover: Mapping[str, Booking],
    holdings: Mapping[str, tuple[PodHoldings, NodeView]],
    now: datetime,
) -> Reserve:
    """The planned devices that are not in use.

    Args:
        bookings: all known bookings.
        cover: pod uid -> the booking that covers it.
        holdings: uid of each covered pod that has devices -> its holding and its node.
        now: the instant.
    """
    used: dict[str, dict[str, int]] = {}
    for uid, booking in cover.items():
        if uid in holdings:
            holding, view = holdings[uid]
            count = sum(view.models.get(uuid) == booking.spec.model for uuid in holding.devices)
            theirs = used.setdefault(booking.name, {})
            theirs[view.name] = theirs.get(view.name, 0) + count
    running = [booking for booking in bookings if booking.is_running(now)]
    unused = [
        (node, booking.spec.model, count)
        for booking in running
        if booking.spec.memory is None
        for node, count in _unused(booking.spec, used.get(booking.name, {}))
    ]
    found: dict[str, dict[str, int]] = {}
    for node, model, count in (*unused, *unused_lanes(running, used)):
        models = found.setdefault(node, {})
        models[model] = models.get(model, 0) + count
    return found


def unused_lanes(
    running: Iterable[Booking], used: Mapping[str, Mapping[str, int]]
) -> Iterable[tuple[str, str, int]]:
    """(node, model, devices) of the lanes that bookings of shares have and no pod uses yet.

    Args:
        running: bookings; those of whole devices have no lanes.
        used: booking -> node -> devices that its pods have there.
    """
    lacking: dict[tuple[str, str], set[object]] = {}
    begun: dict[tuple[str, str], set[object]] = {}
    for booking in running:
        for place in booking.spec.places if booking.spec.memory is not None else ():
            has = used.get(booking.name, {}).get(place.node, 0)
            key = place.node, booking.spec.model
            # A share without a number has a device of its own.
            theirs = [number or (booking.name, serial) for serial, number in enumerate(place.lanes)]
            begun.setdefault(key, set()).update(theirs[:has])
            lacking.setdefault(key, set()).update(theirs[has:])
    for (node, model), lanes in sorted(lacking.items()):
        if count := len(lanes - begun[node, model]):
            yield node, model, count


def _unused(spec: BookingSpec, used: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """(node, devices) of one booking that its pods do not use; never more than it has left in all."""
    left = spec.count - sum(used.values())
    planned = {place.node: place.count for place in spec.places}
    if not planned and spec.node:
        planned = {spec.node: spec.count}
    for node, count in sorted(planned.items()):
        here = min(left, count - used.get(node, 0))
        if here > 0:
            left -= here
            yield node, here
