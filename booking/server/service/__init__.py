"""The only way to bookings: REST, page and CLI use this service, and only it writes to the store."""

from booking.server.service.idempotency import Key
from booking.server.service.known_names import KnownNames
from booking.server.service.pagination import Page
from booking.server.service.queries import ModelAvailability
from booking.server.service.service import BookingService

__all__ = ["BookingService", "Key", "KnownNames", "ModelAvailability", "Page"]
