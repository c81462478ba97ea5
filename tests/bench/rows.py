"""What is measured: kinds of rows, which are known before a run, and rows with their numbers. Pure."""

from collections.abc import Iterable

import msgspec


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """How good a value must be: in the unit of its row, as a multiple of its floor, or both."""

    value: float | None = None
    ratio: float | None = None
    at_least: bool = False
    """Whether larger values are better."""

    def bound(self, floor: float | None) -> float | None:
        """The value that is just good enough, in the unit of the row; None if it cannot be known."""
        bounds = [] if self.value is None else [self.value]
        if self.ratio is not None:
            if floor is None:
                return None
            bounds.append(self.ratio * floor)
        return (max if self.at_least else min)(bounds, default=None)

    @property
    def text(self) -> str:
        """The target in words, without its unit."""
        sign = ">=" if self.at_least else "<="
        parts = [] if self.value is None else [f"{self.value:g}"]
        parts += [] if self.ratio is None else [f"{self.ratio:g} x floor"]
        return f"{sign} {', '.join(parts)}"


class Row(msgspec.Struct, frozen=True):
    """One line of bench/results.json. Numbers have four significant digits."""

    name: str
    value: float
    unit: str
    floor: float | None
    """In the unit of the value, from the same run."""
    ratio: float | None
    """The value as a multiple of the floor."""
    target: float | None
    """The value that would be just good enough, in the same unit."""
    holds: bool | None


class Kind(msgspec.Struct, frozen=True):
    """A row before it is measured."""

    name: str
    """A stable slug."""
    what: str
    unit: str
    floor: str = ""
    """What the floor is; empty if there is none."""
    target: Target | None = None

    def row(self, value: float, floor: float | None = None) -> Row:
        """The row with its numbers.

        Raises:
            ValueError: there is a floor for a kind without one, or none for a kind with one.
        """
        if (floor is None) == bool(self.floor):
            raise ValueError(
                f"The row {self.name} {'has no floor' if not self.floor else 'needs its floor'}."
            )
        bound = self.target.bound(floor) if self.target else None
        return Row(
            name=self.name,
            value=rounded(value),
            unit=self.unit,
            floor=None if floor is None else rounded(floor),
            ratio=rounded(value / floor) if floor else None,
            target=None if bound is None else rounded(bound),
            holds=None if bound is None or self.target is None else self._holds(value, bound),
        )

    def _holds(self, value: float, bound: float) -> bool:
        return value >= bound if self.target and self.target.at_least else value <= bound


def rounded(value: float) -> float:
    """A number with four significant digits."""
    return float(f"{value:.4g}")


def merged(kept: Iterable[Row], new: Iterable[Row], order: Iterable[str]) -> list[Row]:
    """The kept rows, with new ones in place of theirs, in the order of these names; others are left out."""
    found = {row.name: row for row in (*kept, *new)}
    return [found[name] for name in order if name in found]


def complete(kinds: Iterable[Kind], rows: Iterable[Row]) -> None:
    """Check that every row was measured exactly once.

    Raises:
        ValueError: with the names that are missing, unknown, or present twice.
    """
    wanted, got = sorted(kind.name for kind in kinds), sorted(row.name for row in rows)
    if wanted != got:
        missing, unknown = set(wanted) - set(got), set(got) - set(wanted)
        raise ValueError(f"Not what was to be measured: missing {missing}, unknown {unknown}, all {got}.")
