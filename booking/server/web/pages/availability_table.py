"""The availability as a template reads it: one row per model. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from booking.server.cluster_status import ModelNow
from booking.server.service.overview import Overview
from booking.server.web.pages.axis import Axis
from booking.server.web.pages.calendar_range import DAYS, CalendarRange, Head
from booking.server.web.pages.chart import Chart, chart
from booking.server.web.pages.day_cells import Cell, cells_of
from booking.server.web.pages.form_result import model_title
from booking.server.web.pages.load_segments import at, pieces_of, steps_on, summary
from booking.server.web.pages.model_detail import Inside, inside_of
from booking.server.web.pages.short_days import short_text

_TALL: Final = 72
"""Height of a model's chart."""


@dataclass(frozen=True)
class Row:
    """The row of a model."""

    number: int
    label: str
    title: str
    capacity: int
    free: int
    others: str
    """The GPUs lent and in use now; empty if another time is shown, or it is not known."""
    idle: int
    """GPUs that are idle though booked now."""
    when: str
    """``now``, or the first instant of later weeks."""
    short: str
    """How many devices are booked beyond the existing ones, and when; empty if none are."""
    chart: Chart
    summary: str
    days: tuple[Cell, ...]
    fragment: str
    """Address of the row's contents, for htmx."""
    opened: str
    """Address of the page with this row opened."""
    inside: Inside | None


@dataclass(frozen=True)
class AvailabilityTable:
    """Everything that the page *Availability* shows."""

    axis: Axis
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    earlier: str | None
    later: str | None
    problem: str | None = None

    @property
    def last(self) -> datetime:
        """The last day that is shown."""
        return self.axis.midnights[-2]


def table_of(
    overview: Overview | None,
    range_: CalendarRange,
    *,
    opened: str | None,
    problem: str | None,
    models: Sequence[ModelNow] = (),
) -> AvailabilityTable:
    """The table for the shown weeks; ``models`` says how GPUs stand now."""
    now = {one.model: one for one in models} if range_.first is None else {}
    return AvailabilityTable(
        axis=range_.axis,
        heads=range_.heads(),
        rows=tuple(_rows(overview, range_, opened, now)) if overview else (),
        earlier=range_.turned(-DAYS),
        later=range_.turned(DAYS),
        problem=problem,
    )


def _rows(
    overview: Overview, range_: CalendarRange, opened: str | None, now: Mapping[str, ModelNow]
) -> Iterator[Row]:
    for number, model in enumerate(overview.capacity.models, start=1):
        capacity = overview.capacity.total(model)
        found = steps_on(pieces_of(overview, model), range_, capacity)
        first = at(found, range_.first_at)
        stands = now.get(model)
        query = {"model": model, **range_.query()}
        yield Row(
            number=number,
            label=model,
            title=model_title(model),
            capacity=capacity,
            free=first.free if stands is None or stands.bookable is None else stands.bookable,
            others=f"{stands.lent} lent, {stands.in_use} in use" if stands else "",
            idle=stands.idle_though_booked if stands else 0,
            when=range_.first_word,
            short=short_text(found, range_),
            chart=chart(found, range_.axis, now_at=range_.now_at, height=_TALL),
            summary=summary(model_title(model), found, range_.clock),
            days=cells_of(found, range_, model),
            fragment=f"/inside?{urlencode(query)}",
            opened=f"/?{urlencode(query | {'open': model})}#model-{number}",
            inside=inside_of(overview, range_, model) if opened == model else None,
        )
