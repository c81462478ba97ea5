"""Rate limits: a bucket of tokens per client, which fills again as time passes."""

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import structlog

from booking.server.web.problems import TOO_MANY, ProblemError
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

REMEMBERED: Final = 4096
"""Buckets that are remembered; a client that is forgotten starts with a full one."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: float
    """When ``tokens`` was last updated, on the monotonic clock."""
    is_logged: bool = False
    """Whether it was logged that it is empty: a flood is one line, not one per request."""


class RateLimits:
    """One bucket per user, or per address. Thread-safe."""

    def __init__(self, clock: Clock, *, per_second: float, burst: int) -> None:
        """Args: per_second: tokens that a bucket gains; burst: tokens that it holds."""
        self._clock = clock
        self._per_second = per_second
        self._burst = float(burst)
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, whose: str) -> None:
        """Count a request.

        Args:
            whose: a user, or an address.

        Raises:
            ProblemError: 429, with the seconds until the next attempt.
        """
        self._check(whose, cost=1)

    def demand(self, whose: str) -> None:
        """Check that there is one request left, without counting it.

        Raises:
            ProblemError: 429, with the seconds until the next attempt.
        """
        self._check(whose, cost=0)

    def _check(self, whose: str, *, cost: int) -> None:
        with self._lock:
            bucket = self._filled(whose)
            lacking = 1 - bucket.tokens
            if lacking <= 0:
                bucket.tokens -= cost
                return
            is_first, bucket.is_logged = not bucket.is_logged, True
        if is_first:
            log.warning("a client exceeds its rate limit", client=whose, limit_per_second=self._per_second)
        wait = max(1, math.ceil(lacking / self._per_second))
        raise ProblemError(
            TOO_MANY,
            f"There were too many requests of {whose} in a short time: {self._burst:.0f} at once and"
            f" {self._per_second:g} a second are answered. Ask again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )

    def _filled(self, whose: str) -> _Bucket:
        now = self._clock.monotonic()
        bucket = self._buckets.setdefault(whose, _Bucket(self._burst, now))
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled) * self._per_second)
        bucket.filled = now
        bucket.is_logged = bucket.is_logged and bucket.tokens < self._burst
        self._buckets.move_to_end(whose)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket
