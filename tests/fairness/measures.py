"""What a simulation measures: fairness, waiting, and what was destroyed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cluster.decide.fairshare import Line, Shares, Tenant, Unit
from cluster.decide.fairshare.settings import DAY, HOUR, MINUTE


@dataclass
class Measures:
    """Of one run. Work is GPU-microseconds."""

    span: int = 0
    capacity: int = 0
    held: float = 0
    lost: int = 0
    contended: int = 0
    jain: float = 0
    least: float = 0
    evictions: int = 0
    taken_gpus: int = 0
    asked_gpus: int = 0
    delivered: dict[Tenant, float] = field(default_factory=dict)
    deserved: dict[Tenant, float] = field(default_factory=dict)
    by_day: Counter[tuple[str, int]] = field(default_factory=Counter)
    flaps: dict[str, list[int]] = field(default_factory=dict)
    spells: list[int] = field(default_factory=list)
    big_waits: list[int] = field(default_factory=list)
    _since: dict[Tenant, int] = field(default_factory=dict)

    def pass_time(self, span: int, shares: Shares, capacity: int) -> None:
        """Amounts were these for so long."""
        self.span += span
        self.capacity = capacity
        tenants = [one for one in shares.deserved if one.user and shares.deserved[one] > 0]
        for one in tenants:
            held, share = float(shares.held.get(one, 0)), float(shares.deserved[one])
            self.held += held * span
            self.delivered[one] = self.delivered.get(one, 0) + held * span
            self.deserved[one] = self.deserved.get(one, 0) + share * span
        if shares.is_contended and len(tenants) > 1:
            got = [min(1.0, float(shares.held.get(one, 0) / shares.deserved[one])) for one in tenants]
            squares = sum(x * x for x in got)
            self.contended += span
            self.jain += span * (sum(got) ** 2 / (len(got) * squares) if squares else 0.0)
            self.least += span * min(got)

    def observe(self, now: int, shares: Shares, line: Line) -> None:
        """After a pass: who is below 0.9 of the share, though a unit that waits would fit into it."""
        for one in line.tenants:
            held, share = shares.held.get(one, 0), shares.deserved[one]
            fits = held * 10 < share * 9 and any(held + size[1] <= share for size in line.tenants[one])
            if fits:
                self._since.setdefault(one, now)
            elif one in self._since:
                self.spells.append(now - self._since.pop(one))
        for one in [one for one in self._since if one not in line.tenants]:
            self.spells.append(now - self._since.pop(one))

    def started(self, now: int, unit: Unit, *, is_first: bool) -> None:
        """A unit starts."""
        if is_first and unit.gpus >= 8:
            self.big_waits.append(now - unit.created)

    def evicted(self, now: int, unit: Unit, cost: int) -> None:
        """A unit was taken; ``cost`` with its restart."""
        self.evictions += 1
        self.lost += cost
        self.taken_gpus += int(unit.gpus)
        self.flaps.setdefault(unit.uid, []).append(now)

    def end(self, now: int, _active: Iterable[object]) -> None:
        """Nothing happens any more."""
        self.spells += [now - since for since in self._since.values()]

    def finished(self, unit: Unit, work: int) -> None:
        """A unit has done its work."""

    @property
    def most_a_day(self) -> int:
        """The largest number of evictions of one unit within any 24 hours."""
        most = 0
        for instants in self.flaps.values():
            start = 0
            for end, instant in enumerate(instants):
                while instants[start] <= instant - DAY:
                    start += 1
                most = max(most, end - start + 1)
        return most

    def row(self) -> dict[str, Any]:
        """The figures of a table's row."""
        days, all_gpus = max(self.span, 1) / DAY, max(self.capacity * self.span, 1)
        contended = max(self.contended, 1)
        return {
            "used": self.held / all_gpus,
            "jain": self.jain / contended,
            "least": self.least / contended,
            "p50": percentile(self.spells, 50) / MINUTE,
            "p95": percentile(self.spells, 95) / MINUTE,
            "big50": percentile(self.big_waits, 50) / HOUR,
            "big95": percentile(self.big_waits, 95) / HOUR,
            "evictions": self.evictions / days,
            "most": self.most_a_day,
            "lost": 100 * self.lost / max(self.held, 1),
            "contended": self.contended / max(self.span, 1),
        }


def percentile(values: list[int], part: int) -> float:
    """A percentile; 0 of nothing."""
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, len(ordered) * part // 100)]) if ordered else 0.0
