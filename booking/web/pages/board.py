"""The availability as a template reads it: a row for every model. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from booking.service.overview import Overview
from booking.web.pages.answer import model_title
from booking.web.pages.axis import Axis
from booking.web.pages.cells import Cell, cells_of
from booking.web.pages.chart import Chart, chart
from booking.web.pages.inside import Inside, inside_of
from booking.web.pages.leaf import DAYS, Head, Leaf
from booking.web.pages.pieces import at, pieces_of, steps_on, summary

_TALL: Final = 72
"""Height of a model's picture."""


@dataclass(frozen=True)
class Row:
    """A model."""

    number: int
    label: str
    title: str
    capacity: int
    free: int
    when: str
    """``now``, or the first instant of later weeks."""
    over: int
    """So many more are booked at one time than there are."""
    chart: Chart
    summary: str
    days: tuple[Cell, ...]
    fragment: str
    """Where its inside is."""
    opened: str
    """The page with this row opened."""
    inside: Inside | None


@dataclass(frozen=True)
class Board:
    """The whole."""

    axis: Axis
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    earlier: str | None
    later: str | None
    trouble: str | None = None

    @property
    def last(self) -> datetime:
        """The last day that is shown."""
        return self.axis.midnights[-2]


def board_of(overview: Overview | None, leaf: Leaf, *, opened: str | None, trouble: str | None) -> Board:
    """What there is, on a leaf."""
    return Board(
        axis=leaf.axis,
        heads=leaf.heads(),
        rows=tuple(_rows(overview, leaf, opened)) if overview else (),
        earlier=leaf.turned(-DAYS),
        later=leaf.turned(DAYS),
        trouble=trouble,
    )


def _rows(overview: Overview, leaf: Leaf, opened: str | None) -> Iterator[Row]:
    for number, model in enumerate(overview.capacity.models, start=1):
        capacity = overview.capacity.total(model)
        found = steps_on(pieces_of(overview, model), leaf, capacity)
        first = at(found, leaf.first_at)
        most = max(step.used for step in found if step.end > leaf.wall.now)
        query = {"model": model, **leaf.query()}
        yield Row(
            number=number,
            label=model,
            title=model_title(model),
            capacity=capacity,
            free=first.free,
            when=leaf.first_word,
            over=max(0, most - capacity),
            chart=chart(found, leaf.axis, now_at=leaf.now_at, height=_TALL),
            summary=summary(model_title(model), found, leaf.wall),
            days=cells_of(found, leaf, model),
            fragment=f"/inside?{urlencode(query)}",
            opened=f"/?{urlencode(query | {'open': model})}#model-{number}",
            inside=inside_of(overview, leaf, model) if opened == model else None,
        )
