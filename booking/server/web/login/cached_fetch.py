"""A value that is fetched from elsewhere and cached for a while: fetched again, but not too often."""

import math
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import structlog

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

FRESH_SECONDS: Final = 300.0
"""Age at which a value is fetched again."""
USABLE_SECONDS: Final = 3600.0
"""Age up to which a value is used while fetching fails."""
PAUSE_SECONDS: Final = 10.0
"""Seconds between two attempts to fetch, however many threads need the value."""

T = TypeVar("T")


class FetchError(Exception):
    """The value cannot be fetched; the text says why."""


class CachedFetch(Generic[T]):
    """One cached value. Thread-safe: one thread fetches, the others wait for it."""

    def __init__(self, fetch: Callable[[], T], clock: Clock) -> None:
        """Args: fetch: raises ``FetchError``."""
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._value: T | None = None
        self._at = -math.inf
        self._tried = -math.inf

    def get(self, *, renew: bool = False) -> T:
        """The value; ``renew``: the cached one has turned out to be outdated.

        Raises:
            FetchError: it is not known.
        """
        with self._lock:
            now = self._clock.monotonic()
            is_old = now - self._at >= FRESH_SECONDS
            if (is_old or renew) and now - self._tried >= PAUSE_SECONDS:
                self._tried = now
                self._try(now)
            if self._value is None or now - self._at >= USABLE_SECONDS:
                raise FetchError("It could not be fetched a moment ago, and is tried again soon.")
            return self._value

    def _try(self, now: float) -> None:
        try:
            self._value, self._at = self._fetch(), now
        except FetchError as error:
            log.warning("a request to the identity provider failed", error=str(error))
            if self._value is None:
                raise
