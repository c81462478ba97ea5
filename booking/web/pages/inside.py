"""What the row of a model shows when it is opened: its nodes, and everything as tables. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from booking.service.overview import Overview
from booking.stored import Block
from booking.web.pages import load
from booking.web.pages.answer import blocked_gpus, model_title
from booking.web.pages.bookers import Booker, bookers_of
from booking.web.pages.cells import Cell, cells_of
from booking.web.pages.chart import Chart, chart
from booking.web.pages.leaf import Head, Leaf
from booking.web.pages.load import Day
from booking.web.pages.pieces import at, pieces_of, pieces_on, steps_on, summary

_LOW: Final = 30
"""Height of a node's picture."""


@dataclass(frozen=True)
class Node:
    """A node of a model."""

    name: str
    capacity: int
    free: int
    chart: Chart
    summary: str
    reasons: tuple[str, ...]
    """Of maintenance that is shown."""
    days: tuple[Day, ...]


@dataclass(frozen=True)
class Inside:
    """What a row shows when it is opened."""

    title: str
    when: str
    """At which instant ``free`` is meant."""
    dates: tuple[tuple[str, int], ...]
    """Days as people read them, and as a narrow column shows them."""
    heads: tuple[Head, ...]
    nodes: tuple[Node, ...]
    days: tuple[Cell, ...]
    bookers: tuple[Booker, ...]


def inside_of(overview: Overview, leaf: Leaf, model: str) -> Inside:
    """Nodes and table of a model."""
    found = steps_on(pieces_of(overview, model), leaf, overview.capacity.total(model))
    return Inside(
        title=model_title(model),
        when=leaf.first_word,
        dates=tuple((leaf.wall.day(day), leaf.wall.date(day)) for day in leaf.axis.midnights[:-1]),
        heads=leaf.heads(),
        nodes=tuple(_nodes(overview, leaf, model)),
        days=cells_of(found, leaf, model),
        bookers=bookers_of(overview, leaf, model),
    )


def _nodes(overview: Overview, leaf: Leaf, model: str) -> Iterator[Node]:
    for name, capacity in sorted(overview.capacity.devices.get(model, {}).items()):
        found = steps_on(pieces_on(overview, model, name), leaf, capacity)
        yield Node(
            name=name,
            capacity=capacity,
            free=at(found, leaf.first_at).free,
            chart=chart(found, leaf.axis, now_at=leaf.now_at, height=_LOW),
            summary=summary(name, found, leaf.wall),
            reasons=tuple(
                _reason(block, leaf) for block in overview.blocks if _shows(block, leaf, model, name)
            ),
            days=load.days(found, leaf.axis.midnights, leaf.wall.now),
        )


def _shows(block: Block, leaf: Leaf, model: str, node: str) -> bool:
    overlaps = block.start < leaf.axis.end and block.end > leaf.axis.start
    return overlaps and block.node == node and block.model in {None, model}


def _reason(block: Block, leaf: Leaf) -> str:
    span = f"{leaf.wall.moment(block.start)} to {leaf.wall.moment(block.end)}"
    return f"{blocked_gpus(block)}, {span}: {block.reason}"
