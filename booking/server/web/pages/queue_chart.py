"""Who held how many GPUs of a model within a day, as geometry for SVG: areas on top of each other. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from booking.server.cluster_status import SharesOverTime

WIDTH: Final = 1440
"""Units, one for each minute of a day at most."""
HEIGHT: Final = 140
COLOURS: Final = 6
"""Classes ``q0`` to ``q5``."""


@dataclass(frozen=True, slots=True)
class Area:
    """What one user held."""

    label: str
    css_class: str
    path: str


@dataclass(frozen=True, slots=True)
class QueueChart:
    """Paths from which a template draws the picture."""

    width: int
    height: int
    since: datetime
    areas: tuple[Area, ...]
    """The viewer's at the bottom; who never held any has none."""
    deserved: str
    """The path of the line of what the viewer deserved; empty where that was never anything."""
    roof: str
    """The path of the line of all GPUs that are shared."""
    summary: str


def queue_chart(found: SharesOverTime) -> QueueChart | None:
    """The picture; None where there is only one instant."""
    since, length = found.times[0], (found.until - found.times[0]).total_seconds()
    if length <= 0:
        return None
    edges = [(at - since).total_seconds() * WIDTH / length for at in (*found.times, found.until)]
    sums = [sum(user.held[place] for user in found.users) for place in range(len(found.times))]
    unit = HEIGHT / max(1, *found.gpus, *sums, *found.deserved)
    mine = next((user.held[-1] for user in found.users if user.is_mine), 0)
    return QueueChart(
        width=WIDTH,
        height=HEIGHT,
        since=since,
        areas=tuple(_areas(found, edges, unit)),
        deserved=_steps(found.deserved, edges, unit) if any(found.deserved) else "",
        roof=_steps(found.gpus, edges, unit),
        summary=f"GPUs of {found.model} over time: you hold {mine} now, and deserve {found.deserved[-1]:g}.",
    )


def _areas(found: SharesOverTime, edges: Sequence[float], unit: float) -> Iterator[Area]:
    low = [0] * len(found.times)
    for number, user in enumerate(found.users):
        high = [below + held for below, held in zip(low, user.held, strict=True)]
        if any(user.held):
            label = "you" if user.is_mine else user.user or "other users"
            others = "a-others" if user.user is None else f"q{(number - 1) % COLOURS}"
            path = _steps(high, edges, unit) + _back(low, edges, unit)
            yield Area(label, "a-mine" if user.is_mine else others, path)
        low = high


def _steps(values: Sequence[float], edges: Sequence[float], unit: float) -> str:
    """From left to right, a step at each edge where the value changes."""
    first = f"M{edges[0]:.1f} {_y(values[0], unit)}"
    steps = (
        f"H{edges[place]:.1f}V{_y(values[place], unit)}"
        for place in range(1, len(values))
        if values[place] != values[place - 1]
    )
    return "".join((first, *steps, f"H{edges[-1]:.1f}"))


def _back(values: Sequence[float], edges: Sequence[float], unit: float) -> str:
    """The same from right to left, and closed."""
    steps = (
        f"H{edges[place]:.1f}V{_y(values[place - 1], unit)}"
        for place in range(len(values) - 1, 0, -1)
        if values[place] != values[place - 1]
    )
    return "".join((f"V{_y(values[-1], unit)}", *steps, f"H{edges[0]:.1f}Z"))


def _y(value: float, unit: float) -> str:
    return f"{HEIGHT - value * unit:g}"
