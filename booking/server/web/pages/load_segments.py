"""The overview of a cluster as pieces of load: for a model, or for a model on one node. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Final

from booking.server.service.overview import Booked, Overview
from booking.server.web.pages import load
from booking.server.web.pages.calendar_range import CalendarRange
from booking.server.web.pages.load import Kind, Piece, Step
from booking.server.web.pages.site_clock import SiteClock

_EVER: Final = datetime.min.replace(tzinfo=UTC)
_MOMENT: Final = timedelta(seconds=1)
_FREE: Final = attrgetter("free")


def pieces_of(overview: Overview, model: str) -> list[Piece]:
    """Everything that uses devices of a model."""
    found = [Piece(_kind_of(each), each.count, each.start, each.end) for each in _booked(overview, model)]
    return [*found, *_blocked(overview, model, None)]


def pieces_on(overview: Overview, model: str, node: str) -> list[Piece]:
    """The bookings and maintenance of a model on one node; bookings are where the plan has them."""
    found = [
        Piece(_kind_of(each), place.count, each.start, each.end)
        for each in _booked(overview, model)
        for place in each.plan
        if place.node == node
    ]
    return [*found, *_blocked(overview, model, node)]


def free_at(overview: Overview, model: str, instant: datetime) -> int:
    """The number of free devices of a model at an instant of the overview's span."""
    capacity = overview.capacity.total(model)
    found = load.steps(pieces_of(overview, model), instant, instant + _MOMENT, capacity=capacity)
    return found[0].free


def steps_on(pieces: Iterable[Piece], range_: CalendarRange, capacity: int) -> tuple[Step, ...]:
    """The load over all days that are shown."""
    return load.steps(pieces, range_.axis.start, range_.axis.end, capacity=capacity)


def at(found: Sequence[Step], instant: datetime) -> Step:
    """The step that contains an instant; the first if none does."""
    return next((step for step in found if step.start <= instant < step.end), found[0])


def summary(title: str, found: Sequence[Step], clock: SiteClock) -> str:
    """The chart in words, for people who cannot see it."""
    ahead = [step for step in found if step.end > clock.now]
    least, most = min(ahead, key=_FREE), max(ahead, key=_FREE)
    if least.free == most.free:
        return f"{title}: {least.free} of {least.capacity} bookable all the time."
    return (
        f"{title}: {ahead[0].free} of {ahead[0].capacity} bookable at first,"
        f" least {least.free} from {clock.moment(max(least.start, clock.now))},"
        f" most {most.free} from {clock.moment(max(most.start, clock.now))}."
    )


def _booked(overview: Overview, model: str) -> Iterator[Booked]:
    """Bookings of whole devices, and the devices of those of shares."""
    yield from (each for each in overview.booked.get(model, ()) if each.memory is None)
    yield from overview.lanes.get(model, ())


def _kind_of(booked: Booked) -> Kind:
    return "mine" if booked.is_mine else "others"


def _blocked(overview: Overview, model: str, node: str | None) -> Iterator[Piece]:
    """Maintenance, and devices that are granted to others for some time."""
    on_nodes = overview.capacity.devices.get(model, {})
    for block in overview.blocks:
        if block.node in on_nodes and block.model in {None, model} and node in {None, block.node}:
            there = on_nodes[block.node]
            count = there if block.count is None else min(block.count, there)
            yield Piece("blocked", count, block.start, block.end)
    for grant in overview.capacity.grants.get(model, ()):
        if node in {None, grant.node}:
            yield Piece("others", grant.count, _EVER, grant.until)
