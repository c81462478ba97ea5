"""The databases of tests/booking/server/store."""

from tests.booking.server.store.conftest import store, url

__all__ = ["store", "url"]
