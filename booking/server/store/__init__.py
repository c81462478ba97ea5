"""The booking database: the only place where peewee is imported."""

from booking.server.errors import StoreError, StoreGoneError
from booking.server.store.opening import open_store
from booking.server.store.queries import Reading, Writing
from booking.server.store.store import Store

__all__ = ["Reading", "Store", "StoreError", "StoreGoneError", "Writing", "open_store"]
