"""One request as the rules see it: what is requested, by whom, under which limits, at which instant. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from booking import durations
from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.records import Record

GPU: Final = 1000
"""Thousandths of a whole GPU."""


def thousandths(count: int, memory: int | None, offered: int | None) -> int:
    """Thousandths of a GPU; of shares by their part of what each offers, all of it where that is unknown."""
    if memory is None or not offered:
        return count * GPU
    return count * max(1, min(GPU, memory * GPU // offered))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """``count`` devices of ``model``, or a share of each, in ``[start, end)``, requested at ``now``."""

    now: datetime
    limits: Limits
    history: Sequence[Record]
    """The user's own bookings, of every state, without the one being changed."""
    model: str
    count: int
    start: datetime
    """The actual start of the booking."""
    end: datetime
    since: datetime
    """The requested start: up to the tolerance before ``start``. Lengths are measured from here."""
    changing: Record | None = None
    """The booking that would become this one; None: a new one."""
    memory: int | None = None
    """MiB of each device; None: whole devices."""
    memories: Mapping[str, int] = field(default_factory=dict)
    """Model -> MiB that each of its devices offers to shares."""

    @property
    def thousandths(self) -> int:
        """What limits on GPUs count: thousandths of a GPU."""
        return thousandths(self.count, self.memory, self.memories.get(self.model))

    def thousandths_of(self, record: Record) -> int:
        """The same of a booking of the user's."""
        return thousandths(record.count, record.memory, self.memories.get(record.model))

    @property
    def length(self) -> Duration:
        """The requested length."""
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
        """Whether its start has to be checked: a change that keeps the start is not checked again."""
        return self.changing is None or self.changing.start != self.start

    @property
    def gives_back(self) -> bool:
        """Whether it is a change that takes nothing beyond what the booking already has."""
        had = self.changing
        return (
            had is not None
            and had.start <= self.start
            and self.end <= had.end
            and self.adds_no_gpus
            and self.model == had.model
        )

    @property
    def adds_no_gpus(self) -> bool:
        """Whether it is a change to no more GPUs than the booking has, and no more memory of them."""
        had = self.changing
        if had is None or self.count > had.count:
            return False
        return had.memory is None or (self.memory is not None and self.memory <= had.memory)

    @property
    def is_spontaneous(self) -> bool:
        """Whether it begins so soon that the limits on GPUs are lifted."""
        soon = self.limits.spontaneous
        return soon is not None and durations.is_within(self.now, self.start, soon, zone=self.limits.tz)

    def at(self, start: datetime, end: datetime, *, now: datetime | None = None) -> "RuleContext":
        """This request at another time; ``now`` replaces the instant at which it is made."""
        return replace(self, now=now or self.now, start=start, since=start, end=end)
