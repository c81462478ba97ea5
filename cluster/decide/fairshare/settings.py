"""The settings of fair shares, as the decisions need them. Whoever reads them from a file validates them."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

SECOND: Final = 1_000_000
"""Instants and spans are whole microseconds, as in ``eviction.costs``; work is GPU-microseconds."""
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

Amount = int | Fraction
"""GPUs: whole ones, or a part of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """What may be taken from whom, and when. Spans are microseconds."""

    reclaim_after: int = MINUTE
    """How long a tenant must have been below its share without a break before anything is taken for it."""
    min_runtime: int = 10 * MINUTE
    """How long a unit runs before it may be taken; doubled with each eviction of it."""
    longest_min_runtime: int = 8 * HOUR
    turn: int | None = 4 * HOUR
    """How long a unit is protected that got more than its share; None: there are no turns."""
    evictions_per_day: int = 3
    worth: Fraction = Fraction(1)
    """What must have been withheld from a tenant for each GPU-second that victims lose; 0: nothing."""
    turn_loss: Fraction | None = Fraction(1, 2)
    """How much of what a turn gives its victims may lose; None: all they have."""
    lends: bool = True
    """Whether units start without ``min_runtime`` while another one is due for their devices."""
    lag_half_life: int = DAY
    use_half_life: int = 7 * DAY
    most_lag: Fraction = Fraction(5, 4)
    """The lag of a tenant in units of ``turn`` * its largest unit, or ``large_unit`` GPUs, at most."""
    large_unit: int = 8

    def runtime(self, evictions: int) -> int:
        """How long a unit may run undisturbed that was evicted so often before."""
        return min(self.min_runtime << min(evictions, 32), max(self.longest_min_runtime, self.min_runtime))


DEFAULTS: Final = ShareSettings()
