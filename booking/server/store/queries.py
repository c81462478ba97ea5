"""Everything that can be read and written inside one transaction."""

from booking.server.store.administration import AdministrationRead, AdministrationWrite
from booking.server.store.audit_log import AuditRead, AuditWrite
from booking.server.store.bookings import BookingsRead, BookingsWrite
from booking.server.store.people import PeopleRead, PeopleWrite


class Reading(BookingsRead, AdministrationRead, AuditRead, PeopleRead):
    """A reading transaction: everything is from the same moment."""


class Writing(Reading, BookingsWrite, AdministrationWrite, AuditWrite, PeopleWrite):
    """A transaction that writes; no other one writes until it ends."""
