"""What our watch may not have told of yet, read by itself: before somebody loses something for want of it.

A list shows every write that was answered before it was asked for; a watch may lag, or be away for a moment.
"""

from cluster.kube.port import Kube
from cluster.kube.resources import BOOKINGS
from cluster.picture.picture import Picture


def read_bookings(kube: Kube, picture: Picture) -> None:
    """Put all Bookings into the picture that are new in it, or newer than there.

    Raises:
        ApiError: they cannot be read.
    """
    known = picture.bookings
    for booking in kube.list(BOOKINGS).items:
        mine = known.get(booking.name)
        if mine is None or mine.metadata.resource_version != booking.metadata.resource_version:
            picture.apply_booking(booking)
