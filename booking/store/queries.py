"""What can be read and written inside one transaction."""

from booking.store.administration import AdministrationRead, AdministrationWrite
from booking.store.bookings import BookingsRead, BookingsWrite
from booking.store.people import PeopleRead, PeopleWrite
from booking.store.trail import TrailRead, TrailWrite


class Reading(BookingsRead, AdministrationRead, TrailRead, PeopleRead):
    """A transaction that reads: everything is of one moment."""


class Writing(Reading, BookingsWrite, AdministrationWrite, TrailWrite, PeopleWrite):
    """A transaction that writes; nobody else writes until it ends."""
