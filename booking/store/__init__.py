"""The booking database: the only place where peewee is imported."""

from booking.errors import StoreError, StoreGoneError
from booking.store.opening import open_store
from booking.store.queries import Reading, Writing
from booking.store.store import Store

__all__ = ["Reading", "Store", "StoreError", "StoreGoneError", "Writing", "open_store"]
