"""Whether the Booking objects in the cluster come from the database that is open (law L9). Pure."""

from collections.abc import Collection, Iterable
from typing import Final

from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking

NAMED: Final = 3
"""Number of objects that a message names."""


def strangers_among(there: Iterable[Booking], *, store_id: str) -> str | None:
    """The problem if objects carry another store id than this one, else None."""
    foreign = {booking.name: booking.spec.store_id for booking in there if booking.spec.store_id != store_id}
    if not foreign:
        return None
    others = ", ".join(sorted({repr(other) for other in foreign.values()}))
    return (
        f"{_named(foreign)} in the cluster come from the booking database {others}, but {store_id!r} is open:"
        f" nothing is written. Restore the database that they come from, or, if nobody needs them,"
        f" delete them: {_deletion(foreign)}."
    )


def unknown_among(there: Iterable[Booking], known: Collection[str]) -> str | None:
    """The problem if the database does not know some of its own objects, else None."""
    unknown = {booking.name for booking in there} - set(known)
    if not unknown:
        return None
    return (
        f"{_named(unknown)} in the cluster come from this booking database, but it does not know them: an"
        f" older copy of it seems to have been restored, and nothing is written. Restore the newest copy, or,"
        f" if nobody needs them, delete them: {_deletion(unknown)}."
    )


def older_than_written(change: int, written: int | None, *, lease: str) -> str | None:
    """The problem if the database's newest change is older than one that was mirrored, else None.

    A release or a cancellation leaves no object behind that could show it; the number does.

    Args:
        change: the database's newest.
        written: the newest change of this database that was mirrored; None if there is none.
        lease: what an administrator deletes to continue without the lost changes: its name, and ``-n`` its
            namespace.
    """
    if written is None or change >= written:
        return None
    return (
        f"The cluster has change {written} of this booking database already, and its newest is {change}: an"
        f" older copy of it seems to have been restored, and nothing is written. Restore the newest copy, or,"
        f" if nobody needs what it has forgotten: kubectl delete lease {lease}."
    )


def _named(objects: Collection[str]) -> str:
    return f"{len(objects)} Booking {'object' if len(objects) == 1 else 'objects'} ({_few(objects, ', ')})"


def _deletion(objects: Collection[str]) -> str:
    return f"kubectl delete {BOOKINGS.plural}.{BOOKINGS.group} {_few(objects, ' ')}"


def _few(objects: Collection[str], between: str) -> str:
    named = sorted(objects)
    return between.join([*named[:NAMED], *(["..."] if len(named) > NAMED else [])])
