"""One request as the rules see it: what is requested, by whom, under which limits, at which instant. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from booking import durations
from booking.durations import Duration
from booking.policy.limits import Limits
from booking.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """``count`` devices of ``model`` in ``[start, end)``, asked for ``now``."""

    now: datetime
    limits: Limits
    history: Sequence[Record]
    """The user's own bookings, of every state; without the one that is being changed."""
    model: str
    count: int
    start: datetime
    """Where the booking would really begin."""
    end: datetime
    since: datetime
    """Where it begins by what was asked for: up to the tolerance before ``start``. Lengths count from
    here."""
    changing: Record | None = None
    """The booking that would become this one; None: a new one."""

    @property
    def length(self) -> Duration:
        """How long it is by what was asked for."""
        return durations.between(self.since, self.end, self.limits.tz)

    @property
    def counted(self) -> list[Record]:
        """The user's bookings that the limits count: within their scope, and not cancelled."""
        of_all = self.limits.scope == "user"
        return [
            each for each in self.history if each.cancelled is None and (of_all or each.model == self.model)
        ]

    @property
    def is_start_chosen(self) -> bool:
        """Whether its start is open to judgement: a change that leaves it alone is not asked again."""
        return self.changing is None or self.changing.start != self.start

    @property
    def gives_back(self) -> bool:
        """Whether it is a change that takes nothing that the booking has not got already."""
        had = self.changing
        return (
            had is not None
            and had.start <= self.start
            and self.end <= had.end
            and self.count <= had.count
            and self.model == had.model
        )

    @property
    def is_spontaneous(self) -> bool:
        """Whether it begins so soon that the limits on GPUs are lifted."""
        soon = self.limits.spontaneous
        return soon is not None and durations.is_within(self.now, self.start, soon, zone=self.limits.tz)

    def at(self, start: datetime, end: datetime, *, now: datetime | None = None) -> "RuleContext":
        """This request at another time, and as if it were made at ``now`` if that is given."""
        return replace(self, now=now or self.now, start=start, since=start, end=end)
