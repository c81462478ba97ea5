"""What the booking server has guaranteed to people, by its own answers: afterwards it must all be so. Pure.

A request whose answer got lost has happened, or has not, and may yet happen after one that was answered. So
several states are possible for each booking, of which one must be found.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from cluster.objects.bookings import Booking
from devcluster.demo.rest import Json, Rest, RestAnswer
from devcluster.errors import ClusterError

BOOKINGS: Final = "/bookings"
OVER: Final = {"release": "ended", "cancel": "cancelled"}


@dataclass(frozen=True)
class BookingState:
    """A state in which a booking may be."""

    model: str
    count: int
    start: datetime
    end: datetime | None
    """None: whenever it was released."""
    over: str | None = None
    """``ended`` or ``cancelled`` by its owner; None: it begins and ends by itself."""

    def state(self, now: datetime) -> str:
        """What the booking server says of it."""
        if self.over:
            return self.over
        if now < self.start:
            return "planned"
        return "active" if self.end is None or now < self.end else "ended"

    def is_so(self, shown: Json, now: datetime) -> bool:
        """Whether a booking that is shown is in this state."""
        actual = (shown["model"], shown["count"], moment(shown["start"]), shown["state"])
        ends = self.end is None or moment(shown["end"]) == self.end
        return ends and actual == (self.model, self.count, self.start, self.state(now))


class GuaranteedBookings:
    """Of all bookings that were accepted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._possible: dict[str, frozenset[BookingState]] = {}
        self._doubtful: dict[str, frozenset[BookingState]] = {}

    @property
    def bookings(self) -> tuple[str, ...]:
        """The ids of everything that was accepted."""
        with self._lock:
            return tuple(self._possible)

    def answered(self, method: str, path: str, body: Json | None, answer: RestAnswer) -> None:
        """A request was answered."""
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self.unanswered(method, path, body)
        elif not answer.is_refusal and (method, path) == ("POST", BOOKINGS):
            self._guarantee(str(answer.body["id"]), answer.body)
        elif not answer.is_refusal and (change := _requested_change(method, path)):
            self._guarantee(change[0], answer.body)

    def unanswered(self, method: str, path: str, body: Json | None) -> None:
        """Nobody knows what has become of a request."""
        change = _requested_change(method, path)
        if change is None:
            return
        booking, deed = change
        with self._lock:
            before = self._possible.get(booking, frozenset())
            after = frozenset(_after(one, deed, body or {}) for one in before)
            self._doubtful[booking] = self._doubtful.get(booking, frozenset()) | after

    def broken(self, shown: Mapping[str, Json | None], now: datetime) -> list[str]:
        """Messages about bookings that are gone, or are not as guaranteed.

        Args:
            shown: booking -> what the server says of it; None where it knows none.
            now: when it said so.
        """
        with self._lock:
            return [
                f"{booking} is {shown.get(booking)}, and has to be one of {sorted(map(str, states))}"
                for booking, guaranteed in self._possible.items()
                if not _is_one_of(shown.get(booking), states := guaranteed | self._late(booking), now)
            ]

    def _guarantee(self, booking: str, body: Json) -> None:
        over = body["state"] if body.get("released") or body.get("cancelled") else None
        state = BookingState(body["model"], body["count"], moment(body["start"]), moment(body["end"]), over)
        with self._lock:
            self._possible[booking] = frozenset({state})

    def _late(self, booking: str) -> frozenset[BookingState]:
        return self._doubtful.get(booking, frozenset())


class Recorded(Rest):
    """Somebody's access to the booking server, of whose answers all are remembered."""

    def __init__(self, guaranteed: GuaranteedBookings, url: str, token: str) -> None:
        super().__init__(url, token)
        self._guaranteed = guaranteed

    def ask(self, method: str, path: str, body: Json | None = None) -> RestAnswer:
        """One request, as ``Rest`` makes it."""
        try:
            answer = super().ask(method, path, body)
        except ClusterError:
            self._guaranteed.unanswered(method, path, body)
            raise
        self._guaranteed.answered(method, path, body, answer)
        return answer


def unmirrored(shown: Mapping[str, Json | None], objects: Mapping[str, Booking]) -> list[str]:
    """Messages about running bookings that the cluster does not know as they are.

    Args:
        shown: booking -> what the server says of it.
        objects: the Booking objects by name.
    """
    running = {name: booking for name, booking in shown.items() if booking and booking["state"] == "active"}
    return [
        f"{name} is {booking}, and in the cluster {objects.get(name)}"
        for name, booking in running.items()
        if name not in objects
        or (objects[name].spec.count, objects[name].spec.end) != (booking["count"], moment(booking["end"]))
    ]


def moment(text: Any) -> datetime:
    """An instant as the API writes it."""
    return datetime.fromisoformat(str(text))


def _requested_change(method: str, path: str) -> tuple[str, str] | None:
    """Whose change was asked for, and which; None where nothing was to change."""
    words = path.removeprefix(f"{BOOKINGS}/").split("/")
    if method == "POST" and words[1:] == ["release"]:
        return words[0], "release"
    deeds = {"PATCH": "change", "DELETE": "cancel"}
    return (words[0], deeds[method]) if method in deeds else None


def _after(before: BookingState, deed: str, body: Json) -> BookingState:
    if deed in OVER:
        return replace(before, over=OVER[deed], end=None if deed == "release" else before.end)
    start, end = (moment(body[key]) if key in body else None for key in ("start", "end"))
    return replace(before, start=start or before.start, end=end or before.end)


def _is_one_of(shown: Json | None, states: frozenset[BookingState], now: datetime) -> bool:
    return shown is not None and any(one.is_so(shown, now) for one in states)
