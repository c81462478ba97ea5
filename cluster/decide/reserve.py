"""Which devices the running bookings will need that their pods do not have yet, node by node. Pure.

The booking server's plan says where (``spec.places``); pods that run elsewhere have used it up all the same.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import Holding
from cluster.objects.bookings import Booking, BookingSpec

Reserve = Mapping[str, Mapping[str, int]]
"""Node -> model -> devices."""


def reserve(
    bookings: Iterable[Booking],
    cover: Mapping[str, Booking],
    holdings: Mapping[str, tuple[Holding, NodeView]],
    now: datetime,
) -> Reserve:
    """What is planned and not in use.

    Args:
        bookings: all that are known.
        cover: pod uid -> the booking that covers it.
        holdings: uid of each covered pod that has devices -> these, and its node.
        now: the instant.
    """
    used: dict[str, dict[str, int]] = {}
    for uid, booking in cover.items():
        if uid in holdings:
            holding, view = holdings[uid]
            count = sum(view.models.get(uuid) == booking.spec.model for uuid in holding.devices)
            theirs = used.setdefault(booking.name, {})
            theirs[view.name] = theirs.get(view.name, 0) + count
    found: dict[str, dict[str, int]] = {}
    for booking in bookings:
        if booking.is_running(now):
            for node, count in _unused(booking.spec, used.get(booking.name, {})):
                models = found.setdefault(node, {})
                models[booking.spec.model] = models.get(booking.spec.model, 0) + count
    return found


def _unused(spec: BookingSpec, used: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """The places of one booking that its pods do not fill; never more than it has devices left."""
    left = spec.count - sum(used.values())
    planned = {place.node: place.count for place in spec.places}
    if not planned and spec.node:
        planned = {spec.node: spec.count}
    for node, count in sorted(planned.items()):
        here = min(left, count - used.get(node, 0))
        if here > 0:
            left -= here
            yield node, here
