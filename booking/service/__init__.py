"""The only way to bookings: REST, page and CLI use this service, and only it writes to the store."""

from booking.service.idempotency import Key
from booking.service.known_names import KnownNames
from booking.service.pagination import Page
from booking.service.queries import ModelAvailability
from booking.service.service import BookingService

__all__ = ["BookingService", "Key", "KnownNames", "ModelAvailability", "Page"]
