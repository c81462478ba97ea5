"""A booking that cannot be kept: why, and the alternatives for its owner. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import UNSET

from booking.server.evaluation.alternatives import Alternative
from booking.server.records import BookingChange, Record
from booking.server.store_records import Block
from booking.server.web.pages.form_result import WHY, FormAnswer, gpus, why_of
from booking.server.web.pages.site_clock import SiteClock, utc_seconds

_STAYS: Final = "Nothing is cancelled automatically."
_MOST_GPUS: Final = 6
"""Digits of a number of GPUs at most."""


@dataclass(frozen=True)
class Offer:
    """A change that would be accepted at once: a button, and the values that its form submits."""

    title: str
    why: str
    start: str
    """Empty: a running booking keeps its start."""
    end: str
    count: int


@dataclass(frozen=True)
class Instead:
    """What could be had instead of a booking at risk."""

    offers: tuple[Offer, ...]
    others: tuple[str, ...]
    """Alternatives that require cancelling it first: a change cannot change the model."""


@dataclass(frozen=True)
class Risk:
    """Everything shown about a booking at risk."""

    message: str
    instead: Instead | None
    """None while it has not been searched."""


def risk_of(
    record: Record, blocks: Iterable[Block], instead: Sequence[Alternative] | None, clock: SiteClock
) -> Risk:
    """Why a booking cannot be kept at present; where it was searched, what would be accepted in its place."""
    message = f"{_cause(record, blocks, clock)} {_STAYS}"
    return Risk(message, None if instead is None else _instead(record, instead, clock))


def _instead(record: Record, instead: Sequence[Alternative], clock: SiteClock) -> Instead:
    is_running = record.state(clock.now) == "active"
    mine = [each for each in instead if _becomes(record, each, clock, is_running=is_running)]
    # A running one is released, not cancelled, and a user who has released waits before booking again.
    rest = [] if is_running else [each for each in instead if each not in mine]
    return Instead(
        tuple(_offer(each, clock, is_running=is_running) for each in mine),
        tuple(alternative_texts(rest, clock)),
    )


def taken(start: str, end: str, count: str) -> BookingChange | FormAnswer:
    """The change in a submitted offer; a message if it cannot be parsed."""
    unreadable = FormAnswer("bad", "Nothing was changed: load the page again, and choose again.")
    if not (count.isascii() and count.isdecimal() and len(count) <= _MOST_GPUS):
        return unreadable
    try:
        begin, over = (datetime.fromisoformat(text) if text else None for text in (start, end))
    except ValueError:
        return unreadable
    if over is None or any(each is not None and each.tzinfo is None for each in (begin, over)):
        return unreadable
    return BookingChange(start=UNSET if begin is None else begin.astimezone(UTC), end=over, count=int(count))


def _cause(record: Record, blocks: Iterable[Block], clock: SiteClock) -> str:
    nodes = {place.node for place in record.places}
    for block in blocks:
        if block.node in nodes and block.start < record.end and block.end > record.start:
            return (
                f"Maintenance on {block.node} from {clock.moment(block.start)} to {clock.moment(block.end)}"
                f" ({block.reason}) takes its GPUs, and there is no other place for it."
            )
    return "There are fewer GPUs of this model than are guaranteed."


def _becomes(record: Record, other: Alternative, clock: SiteClock, *, is_running: bool) -> bool:
    """Whether the alternative can be reached by a change of the booking."""
    is_alike = other.model == record.model and (other.count == 1 or other.topology == record.topology)
    return is_alike and (other.start <= clock.now or not is_running)


def _offer(other: Alternative, clock: SiteClock, *, is_running: bool) -> Offer:
    return Offer(
        title=_span(other, clock),
        why=why_of(other, WHY.get(other.why, ""), clock),
        start="" if is_running else utc_seconds(other.start),
        end=utc_seconds(other.end),
        count=other.count,
    )


def alternative_texts(others: Iterable[Alternative], clock: SiteClock) -> Iterator[str]:
    """Each alternative in a few words: what, from when until when, and the difference."""
    for each in others:
        what = gpus(each.count, each.model, each.memory)
        yield f"{what}, {_span(each, clock)} ({WHY.get(each.why, each.why)})"


def _span(other: Alternative, clock: SiteClock) -> str:
    start = "Now" if other.start <= clock.now else clock.moment(other.start)
    return f"{start} \N{EN DASH} {clock.moment(other.end)}"
