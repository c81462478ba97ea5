"""A chart of rows by size as SVG, which shows how values grow. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 360
_LEFT: Final = 60
_RIGHT: Final = 150
_TOP: Final = 24
_BOTTOM: Final = 48
_COLOURS: Final = ("#0b6e4f", "#b5651d", "#5b5f97", "#8d99ae")
_STEPS: Final = 5
_HEAD: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
    ' font-family="sans-serif" font-size="12">'
)

Line = Sequence[tuple[float, float]]
"""(size, value), sorted by size."""


def chart(lines: Mapping[str, Line], *, title: str, across: str, up: str) -> str:
    """The chart of some lines.

    Args:
        lines: name of a line -> its points.
        title: what the chart shows, for people who cannot see it.
        across: what the sizes are.
        up: what the values are.
    """
    points = [point for line in lines.values() for point in line]
    widest = max((x for x, _ in points), default=1) or 1
    highest = _round_up(max((y for _, y in points), default=1))

    def place(x: float, y: float) -> tuple[float, float]:
        right, down = WIDTH - _RIGHT - _LEFT, HEIGHT - _BOTTOM - _TOP
        return round(_LEFT + right * x / widest, 1), round(_TOP + down * (1 - y / highest), 1)

    parts = [
        _HEAD.format(width=WIDTH, height=HEIGHT),
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for step in range(_STEPS + 1):
        value = highest * step / _STEPS
        (left, y), (right, _) = place(0, value), place(widest, value)
        parts.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>')
    for x in sorted({x for x, _ in points}):
        at, base = place(x, 0)
        parts.append(f'<text x="{at}" y="{base + 18}" text-anchor="middle">{x:g}</text>')
    middle, base = place(widest / 2, 0)
    parts.append(f'<text x="{middle}" y="{base + 38}" text-anchor="middle">{across}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 8}" text-anchor="middle">{up}</text>')
    for number, (name, line) in enumerate(lines.items()):
        parts += _drawn(name, [place(x, y) for x, y in line], _COLOURS[number % len(_COLOURS)])
    return "\n".join([*parts, "</svg>", ""])


def _drawn(name: str, places: Sequence[tuple[float, float]], colour: str) -> list[str]:
    if not places:
        return []
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places]
    x, y = places[-1]
    label = f'<text x="{x + 8}" y="{y + 4}" fill="{colour}">{name}</text>'
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots, label]


def _round_up(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    return next(power * step for step in (1, 2, 3, 4, 5, 6, 8, 10) if power * step >= value)
