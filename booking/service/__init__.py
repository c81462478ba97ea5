"""The one way to bookings: REST, page and CLI ask this service, and it alone writes to the store."""

from booking.service.once import Key
from booking.service.paging import Page
from booking.service.seeing import ModelAvailability
from booking.service.service import BookingService

__all__ = ["BookingService", "Key", "ModelAvailability", "Page"]
