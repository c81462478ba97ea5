"""The table that ``make bench`` prints and docs/performance.md shows. Pure."""

from collections.abc import Iterable, Mapping
from statistics import median, quantiles
from typing import Final

from tests.bench.rows import Kind, Row

HEADER: Final = ("name", "what", "value", "floor in the same run", "ratio", "target", "holds")
_HOLDS: Final = {None: "-", True: "yes", False: "**no**"}


def percentile(times: Iterable[float], percent: int) -> float:
    """A percentile, interpolated between measured values: 50 is the median.

    Args:
        times: at least one.
        percent: 1 to 99.
    """
    known = list(times)
    if percent == 50:
        return median(known)
    return quantiles(known, n=100, method="inclusive")[percent - 1] if len(known) > 1 else known[0]


def number(value: float) -> str:
    """A number with three significant digits: ``0.0123``, ``4.56``, ``1234``."""
    if value == 0:
        return "0"
    digits = 0
    while digits < 6 and abs(value) * 10**digits < 100:
        digits += 1
    return f"{value:.{digits}f}"


def cells(kind: Kind, row: Row) -> tuple[str, ...]:
    """A row as texts."""
    floor = "-" if row.floor is None else f"{number(row.floor)} {row.unit} ({kind.floor})"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    value = f"{number(row.value)} {row.unit}"
    target = kind.target.text if kind.target else "-"
    return f"`{row.name}`", kind.what, value, floor, ratio, target, _HOLDS[row.holds]


def render(kinds: Mapping[str, Kind], rows: Iterable[Row]) -> str:
    """The rows as a Markdown table with aligned columns.

    Args:
        kinds: by name; rows of an unknown kind are left out.
        rows: in their order.
    """
    texts = [HEADER, *(cells(kinds[row.name], row) for row in rows if row.name in kinds)]
    widths = [max(len(text[column]) for text in texts) for column in range(len(HEADER))]
    lines = [" | ".join(text[c].ljust(widths[c]) for c in range(len(HEADER))) for text in texts]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])


def failures(rows: Iterable[Row]) -> list[str]:
    """A message for each missed target."""
    return [
        f"{row.name}: {number(row.value)} {row.unit}, and the target is {number(row.target)}."
        for row in rows
        if row.holds is False and row.target is not None
    ]
