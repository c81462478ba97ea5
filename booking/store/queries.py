"""Everything that can be read and written inside one transaction."""

from booking.store.administration import AdministrationRead, AdministrationWrite
from booking.store.audit_log import AuditRead, AuditWrite
from booking.store.bookings import BookingsRead, BookingsWrite
from booking.store.people import PeopleRead, PeopleWrite


class Reading(BookingsRead, AdministrationRead, AuditRead, PeopleRead):
    """A reading transaction: everything is from the same moment."""


class Writing(Reading, BookingsWrite, AdministrationWrite, AuditWrite, PeopleWrite):
    """A transaction that writes; no other one writes until it ends."""
