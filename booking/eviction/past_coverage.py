"""Which of today's pods a user's bookings covered at an instant about the end of one of them. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.decide.entitlement import Candidate, candidate, entitlement
from cluster.decide.ledger import NodeView
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

_WRITTEN_TO: Final = timedelta(seconds=1)
"""Kubernetes writes the instant of a creation down to whole seconds."""


def covered_at(
    at: datetime,
    booking: Booking,
    *,
    bookings: Iterable[Booking],
    pods: Iterable[Pod],
    views: Mapping[str, NodeView],
) -> dict[str, Booking]:
    """Uid -> what covers it, of those of the user's pods that are older than the booking's end.

    Args:
        at: the instant.
        booking: about whose end it is.
        bookings: all that there are; of this one ``booking`` counts.
        pods: that live, anybody's.
        views: name -> node, with what pods hold.
    """
    user, found = booking.spec.user, []
    for pod in pods:
        created = pod.metadata.creation_timestamp
        is_theirs = pod.metadata.annotation(names.USER) == user
        is_older = created is not None and created + _WRITTEN_TO <= booking.spec.end
        if is_theirs and is_older and (one := _candidate(pod, views)):
            found.append(one)
    theirs = [b for b in bookings if b.spec.user == user and b.name != booking.name]
    return entitlement([*theirs, booking], found, at)


def _candidate(pod: Pod, views: Mapping[str, NodeView]) -> Candidate | None:
    """With the devices that it holds, drift counted in."""
    view = views.get(pod.spec.node_name or "")
    holding = next((c for c in view.holdings if c.uid == pod.metadata.uid), None) if view else None
    if view is None or holding is None:
        return candidate(pod, held=None, models={})
    return candidate(pod, held={"": tuple(holding.devices)}, models=view.models)
