"""The databases of tests/booking/store."""

from tests.booking.store.conftest import store, url

__all__ = ["store", "url"]
