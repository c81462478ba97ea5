"""Who has booked GPUs of a model, where whoever looks is told. Pure."""

from dataclasses import dataclass

from booking.service.overview import Overview
from booking.web.pages.calendar_range import CalendarRange


@dataclass(frozen=True)
class Booker:
    """A row of the table."""

    user: str
    gpus: int
    start: str
    end: str
    is_mine: bool


def bookers_of(overview: Overview, range_: CalendarRange, model: str) -> tuple[Booker, ...]:
    """Bookings of the leaf by their start; none where only one's own are told, which have a page."""
    axis = range_.axis
    told = [
        (each.start, each.user, each)
        for each in overview.booked.get(model, ())
        if each.user is not None and each.start < axis.end and each.end > axis.start
    ]
    if all(each.is_mine for _, _, each in told):
        return ()
    told.sort(key=lambda row: row[:2])
    return tuple(
        Booker(user, each.count, range_.clock.moment(each.start), range_.clock.moment(each.end), each.is_mine)
        for _, user, each in told
    )
