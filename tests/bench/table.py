"""The table that ``make bench`` prints: every value beside a floor measured in the same run. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median, quantiles

import msgspec

HEADER = ("what", "value", "floor in the same run", "ratio")


class Floor(msgspec.Struct, frozen=True):
    """The least that the machine needs for what is compared, in the unit of its row."""

    value: float
    what: str


class Row(msgspec.Struct, frozen=True):
    """One measured value."""

    what: str
    value: float
    unit: str
    floor: Floor | None = None

    @property
    def ratio(self) -> float | None:
        """How many times the floor; None where there is none to compare with."""
        return self.value / self.floor.value if self.floor and self.floor.value > 0 else None


def percentile(times: Sequence[float], percent: int) -> float:
    """A percentile between measured values: 50 is the median.

    Args:
        times: at least one.
        percent: 1 to 99.
    """
    if percent == 50:
        return median(times)
    return quantiles(times, n=100, method="inclusive")[percent - 1] if len(times) > 1 else times[0]


def number(value: float) -> str:
    """Three digits that matter: ``0.0123``, ``4.56``, ``1234``."""
    if value == 0:
        return "0"
    digits = 0
    while digits < 6 and abs(value) * 10**digits < 100:
        digits += 1
    return f"{value:.{digits}f}"


def cells(row: Row) -> tuple[str, str, str, str]:
    """A row as four texts."""
    value = f"{number(row.value)} {row.unit}"
    if row.floor is None:
        return row.what, value, "-", "-"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    return row.what, value, f"{number(row.floor.value)} {row.unit} ({row.floor.what})", ratio


def render(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table with aligned columns."""
    texts = [HEADER, *map(cells, rows)]
    widths = [max(len(text[column]) for text in texts) for column in range(len(HEADER))]
    lines = [" | ".join(text[c].ljust(widths[c]) for c in range(len(HEADER))) for text in texts]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])
