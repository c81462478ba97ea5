"""The cluster as one process sees it: newest objects and ledger behind one lock, fed by reflectors.

The extender and the controller (admission and reclaimer) build on it.
"""

from cluster.picture.following import UNSUCCESSFUL, Following
from cluster.picture.latest import read_bookings
from cluster.picture.looks import Look, Looks
from cluster.picture.picture import Picture
from cluster.picture.places import EVERYWHERE, Places, Witness

__all__ = [
    "EVERYWHERE",
    "UNSUCCESSFUL",
    "Following",
    "Look",
    "Looks",
    "Picture",
    "Places",
    "Witness",
    "read_bookings",
]
