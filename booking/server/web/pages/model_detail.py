"""The contents of an opened model row: its nodes, and everything as tables. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from booking import wording
from booking.server.service.overview import Booked, Overview
from booking.server.store_records import Block
from booking.server.web.pages import load
from booking.server.web.pages.calendar_range import CalendarRange, Head
from booking.server.web.pages.chart import Chart, chart
from booking.server.web.pages.day_cells import Cell, cells_of
from booking.server.web.pages.form_result import blocked_gpus, model_title
from booking.server.web.pages.load import Day
from booking.server.web.pages.load_segments import at, pieces_of, pieces_on, steps_on, summary

_LOW: Final = 30
"""Height of a node's chart."""


@dataclass(frozen=True)
class Booker:
    """A booking of the model, as a row of a table."""

    user: str
    gpus: str
    """How many GPUs, and of shares how much of each."""
    start: str
    end: str
    is_mine: bool


@dataclass(frozen=True)
class Node:
    """A node that has GPUs of the model."""

    name: str
    capacity: int
    free: int
    chart: Chart
    summary: str
    reasons: tuple[str, ...]
    """Reasons of the maintenance that is shown."""
    days: tuple[Day, ...]


@dataclass(frozen=True)
class Inside:
    """The contents of an opened row."""

    title: str
    when: str
    """The instant at which ``free`` is measured."""
    dates: tuple[tuple[str, int], ...]
    """Days in full, and as a narrow column shows them."""
    heads: tuple[Head, ...]
    nodes: tuple[Node, ...]
    days: tuple[Cell, ...]
    bookers: tuple[Booker, ...]


def inside_of(overview: Overview, range_: CalendarRange, model: str) -> Inside:
    """Nodes and table of a model."""
    found = steps_on(pieces_of(overview, model), range_, overview.capacity.total(model))
    return Inside(
        title=model_title(model),
        when=range_.first_word,
        dates=tuple((range_.clock.day(day), range_.clock.date(day)) for day in range_.axis.midnights[:-1]),
        heads=range_.heads(),
        nodes=tuple(_nodes(overview, range_, model)),
        days=cells_of(found, range_, model),
        bookers=bookers_of(overview, range_, model),
    )


def _nodes(overview: Overview, range_: CalendarRange, model: str) -> Iterator[Node]:
    for name, capacity in sorted(overview.capacity.devices.get(model, {}).items()):
        found = steps_on(pieces_on(overview, model, name), range_, capacity)
        yield Node(
            name=name,
            capacity=capacity,
            free=at(found, range_.first_at).free,
            chart=chart(found, range_.axis, now_at=range_.now_at, height=_LOW),
            summary=summary(name, found, range_.clock),
            reasons=tuple(
                _reason(block, range_) for block in overview.blocks if _shows(block, range_, model, name)
            ),
            days=load.days(found, range_.axis.midnights, range_.clock.now),
        )


def _shows(block: Block, range_: CalendarRange, model: str, node: str) -> bool:
    overlaps = block.start < range_.axis.end and block.end > range_.axis.start
    return overlaps and block.node == node and block.model in {None, model}


def _reason(block: Block, range_: CalendarRange) -> str:
    span = f"{range_.clock.moment(block.start)} to {range_.clock.moment(block.end)}"
    return f"{blocked_gpus(block)}, {span}: {block.reason}"


def _gpus(booked: Booked, offered: int | None) -> str:
    """How many GPUs, and of shares how much of each: ``2``, ``2 \N{MULTIPLICATION SIGN} 20 of 79.1 GiB``."""
    if booked.memory is None:
        return str(booked.count)
    memory, whole = wording.mebibytes(booked.memory), wording.mebibytes(offered or 0)
    of = f"{memory.removesuffix(' GiB')} of {whole}" if offered else memory
    return f"{booked.count} \N{MULTIPLICATION SIGN} {of}"


def bookers_of(overview: Overview, range_: CalendarRange, model: str) -> tuple[Booker, ...]:
    """Bookings of the shown weeks, by start; none if the user sees only their own, listed elsewhere."""
    axis = range_.axis
    visible = [
        (each.start, each.user, each)
        for each in overview.booked.get(model, ())
        if each.user is not None and each.start < axis.end and each.end > axis.start
    ]
    if all(each.is_mine for _, _, each in visible):
        return ()
    visible.sort(key=lambda row: row[:2])
    return tuple(
        Booker(
            user,
            _gpus(each, overview.capacity.memories.get(model)),
            range_.clock.moment(each.start),
            range_.clock.moment(each.end),
            each.is_mine,
        )
        for _, user, each in visible
    )
