"""What our watch may not have told of yet, read by itself: before somebody loses something for want of it.

A list shows every write that was answered before it was asked for; a watch may lag, or be away for a moment.
"""

from cluster.cache.cache import ClusterCache
from cluster.kube.interface import Kube
from cluster.kube.resources import BOOKINGS


def read_bookings(kube: Kube, cache: ClusterCache) -> None:
    """Put all Bookings into the picture that are new in it, or newer than there.

    Raises:
        ApiError: they cannot be read.
    """
    known = cache.bookings
    for booking in kube.list(BOOKINGS).items:
        mine = known.get(booking.name)
        if mine is None or mine.metadata.resource_version != booking.metadata.resource_version:
            cache.apply_booking(booking)
