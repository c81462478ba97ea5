"""Growing, jittered delays between attempts. The caller does the waiting."""

import random as randomness
from dataclasses import dataclass, field
from typing import Protocol

from cluster.decide.exponential_backoff import exponential_backoff


class Random(Protocol):
    """The part of ``random.Random`` that spreads our attempts over time."""

    def uniform(self, a: float, b: float, /) -> float:
        """A number between a and b."""
        ...


def unpredictable() -> Random:
    """Randomness that spreads load; no secret depends on it."""
    return randomness.SystemRandom()


@dataclass
class Backoff:
    """Delays that double from ``first`` to ``longest`` seconds, each between half and the whole of it."""

    first: float = 0.5
    longest: float = 30.0
    random: Random = field(default_factory=unpredictable)
    _failures: int = field(default=0, init=False)

    def next(self) -> float:
        """Seconds to wait before the next attempt; they grow with each call."""
        self._failures += 1
        ceiling = exponential_backoff(self._failures, first=self.first, longest=self.longest)
        return self.random.uniform(ceiling / 2, ceiling)

    def reset(self) -> None:
        """An attempt succeeded: start from ``first`` again."""
        self._failures = 0
