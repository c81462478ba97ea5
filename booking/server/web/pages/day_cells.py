"""The days of a model in the row's links and in its table. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from booking.server.web.pages import load
from booking.server.web.pages.booking_form import Texts
from booking.server.web.pages.calendar_range import CalendarRange
from booking.server.web.pages.load import Day, Step
from booking.server.web.pages.site_clock import SiteClock


@dataclass(frozen=True)
class Cell:
    """What the table shows of a model on one day."""

    name: str
    free: int
    most: int
    mine: int
    others: int
    blocked: int
    over: int
    address: str
    fragment: str
    label: str
    css_class: str


def cells_of(found: Sequence[Step], range_: CalendarRange, model: str) -> tuple[Cell, ...]:
    """The cells of all days that are shown."""
    days = load.days(found, range_.axis.midnights, range_.clock.now)
    capacity = found[0].capacity
    query = f"{Texts(model=model).query()}&check=1&start="
    return tuple(
        _cell(day, begin, range_.clock, query, capacity=capacity)
        for day, begin in zip(days, range_.axis.midnights, strict=False)
    )


def _cell(day: Day, begin: datetime, clock: SiteClock, query: str, *, capacity: int) -> Cell:
    start = "" if day.start <= clock.now else clock.field(day.start)
    name = clock.day(begin)
    free = f"{day.free} of {capacity} bookable all day"
    if day.most > day.free:
        free += f", {day.most} from {clock.moment(day.start)}"
    return Cell(
        name=name,
        free=day.free,
        most=day.most,
        mine=day.mine,
        others=day.others,
        blocked=day.blocked,
        over=day.over,
        address=f"/?{query}{start}#book",
        fragment=f"/book?{query}{start}",
        label=f"{name}: {free}",
        css_class="some" if day.free else "none",
    )
