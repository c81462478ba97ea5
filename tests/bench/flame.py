"""A flame graph as SVG: each frame as wide as the time spent in it and in what it calls. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

from tests.bench.tracing import Stack

WIDTH: Final = 1200
ROW: Final = 17
TOP: Final = 40
LETTER: Final = 6.6
"""Width of a letter, in the units of the graph."""
NARROWEST: Final = 0.5
"""Narrower frames are left out."""
OURS: Final = ("cluster.", "extender.")
_HEAD: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
    ' font-family="monospace" font-size="11">'
)


@dataclass
class Frame:
    """One frame under its callers."""

    name: str
    spent: float = 0
    """The time spent in it and in what it calls."""
    calls: "dict[str, Frame]" = field(default_factory=dict)


@dataclass(frozen=True)
class Box:
    """A frame in the graph."""

    frame: Frame
    depth: int
    left: float
    width: float


def flame(stacks: Mapping[Stack, float], *, title: str) -> str:
    """The graph, the outermost frames on top; a frame's exact share is its tooltip.

    Args:
        stacks: frames, the outermost first -> what was spent there, in any unit.
        title: what was done.
    """
    root = _tree(stacks)
    boxes = list(_boxes(root, 0, 0.0, WIDTH / root.spent)) if root.spent else []
    height = TOP + ROW * (1 + max((box.depth for box in boxes), default=0))
    return "\n".join(
        [
            _HEAD.format(width=WIDTH, height=height),
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="4" y="{TOP / 2}" font-size="13">{escape(title)}</text>',
            *(_drawn(box, root.spent) for box in boxes),
            "</svg>",
            "",
        ]
    )


def _tree(stacks: Mapping[Stack, float]) -> Frame:
    root = Frame("all")
    for stack, spent in stacks.items():
        root.spent += spent
        here = root
        for name in stack:
            here = here.calls.setdefault(name, Frame(name))
            here.spent += spent
    return root


def _boxes(frame: Frame, depth: int, left: float, scale: float) -> Iterator[Box]:
    """A frame, and below it what it calls, sorted by name, so that two graphs can be compared."""
    width = frame.spent * scale
    if width < NARROWEST:
        return
    yield Box(frame, depth, left, width)
    for called in sorted(frame.calls.values(), key=lambda one: one.name):
        yield from _boxes(called, depth + 1, left, scale)
        left += called.spent * scale


def _drawn(box: Box, whole: float) -> str:
    name, top = box.frame.name, TOP + ROW * box.depth
    colour = "#8fd3b6" if name.startswith(OURS) else "#e9c9a1"
    letters = int((box.width - 4) / LETTER)
    text = name if len(name) <= letters else name[-letters:] if letters > 0 else ""
    label = f'<text x="{box.left + 2:.1f}" y="{top + 12}">{escape(text)}</text>' if text else ""
    return (
        f"<g><title>{escape(name)}: {box.frame.spent / whole:.1%}</title>"
        f'<rect x="{box.left:.1f}" y="{top}" width="{box.width:.1f}" height="{ROW - 1}" fill="{colour}"/>'
        f"{label}</g>"
    )
