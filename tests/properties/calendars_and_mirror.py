"""How bookings are kept, where the events come late, again, in another order, or not at all.

Rules and calendar are pure and are handed everything they judge. Kept, and changed by events, are two things:

- ``booking.server.availability.calendars``: what is booked of a model, brought up to date by what a
  transaction of the database says to have changed. Transactions that have begun earlier see older states, ask
  again, or ask after newer ones; others undo what they have written, and their numbers become those of other
  changes; of most changes nobody ever asks;
- the Booking objects: the mirror writes them, calls fail, answers are lost, another process goes on. A watch
  reports them late, again, or only by the next list.
"""

from concurrent.futures import wait
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Final

from prometheus_client import CollectorRegistry

from booking.server.availability.calendars import Calendar, Calendars, calendar_of, seconds
from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import Mirror
from booking.server.mirror.plan import KEPT, spec_of
from booking.server.records import Place
from booking.server.store import Reading, Store, Writing
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Conflict, Refusal, Request, Unreachable
from cluster.kube.resources import BOOKINGS
from tests.fakes.objects import A100, A6000
from tests.properties.booking_reference import BookingReference
from tests.properties.channel import Channel
from tests.properties.history import Pick, step

MODELS: Final = (A100, A6000)
READERS: Final = 3
"""Transactions that are open at the same time."""
CALLS: Final = ("LIST", "GET", "POST", "PATCH", "DELETE")
REQUEST: Final = Request("PATCH", "/")
ERRORS: Final[dict[str, ApiError]] = {
    "no answer": Unreachable(REQUEST, "connection refused"),
    "refused": Conflict(REQUEST, Refusal(code=409, reason="Conflict")),
}


class _UndoneError(Exception):
    """What was written is not to be stored."""


class CalendarsAndMirror(BookingReference):
    """Who keeps what is stored; ``store`` is the database."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.calendars = Calendars()
        self._readers: list[tuple[ExitStack, Reading]] = []
        self._lives = 0
        self.kube = FakeKube(self.clock)
        self.cache = ClusterCache(self.clock)
        self.channel = Channel(self.kube, BOOKINGS, self.cache.of(BOOKINGS))
        self.channel.list()

    def start_process(self) -> None:
        """Another process of the booking server has opened its database."""
        self._lives += 1
        lease = MirrorLease(self.kube, self.clock, namespace=names.NAMESPACE, holder=f"server-{self._lives}")
        metrics = ServerMetrics(CollectorRegistry())
        self.mirror = Mirror(self.kube, self.store, self.clock, lease=lease, metrics=metrics)
        self.calendars = Calendars()

    def end_readers(self) -> None:
        """No transaction is open."""
        while self._readers:
            self._readers.pop()[0].close()

    # --- calendars ---------------------------------------------------------------------------------------
    @step(2)
    def somebody_begins_to_read(self, _pick: Pick) -> str:
        if len(self._readers) == READERS:
            self._readers.pop(0)[0].close()
        stack = ExitStack()
        reading = stack.enter_context(self.store.reading())
        self._readers.append((stack, reading))
        return f"as of change {reading.change()}"

    @step(3)
    def some_ask_what_is_booked(self, pick: Pick) -> str:
        """Each sees what was stored when they began: again, and in any order."""
        newest, found = self.store.change(), []
        for _ in range(pick.between(1, 4)):
            with self.store.reading() as present:
                seen = pick.one([present, *(reading for _, reading in self._readers)])
                number = sum(self._check_calendar(seen, model) for model in MODELS)
                found.append(f"{number} bookings {newest - seen.change()} changes before")
        return ", ".join(found)

    @step()
    def something_is_written_and_undone(self, pick: Pick) -> str:
        node = pick.one(("n0", "n9"))
        moved: list[str] = []

        def attempt(writing: Writing) -> None:
            moved.clear()
            for record in writing.ending_after(self.clock.now())[:3]:
                self._check_calendar(writing, record.model)
                writing.replan(record.id, (Place(node, 1),))
                self._check_calendar(writing, record.model)
                moved.append(record.id)
            raise _UndoneError

        with suppress(_UndoneError):
            self.store.write(attempt)
        with self.store.reading() as reading:
            for model in MODELS:
                self._check_calendar(reading, model)
        return f"{moved} to {node}"

    def _check_calendar(self, reading: Reading, model: str) -> int:
        """What is kept is what this transaction would read again; returns the number of bookings."""
        now = self.clock.now()
        kept = self.calendars.of(model, reading, now)
        fresh = calendar_of(reading.ending_after(now, model=model), reading.change())
        assert kept.change == fresh.change
        assert {key: record for key, record in kept.records.items() if record.end > now} == fresh.records
        assert kept.has_wholes(now) == fresh.has_wholes(now)
        begin = seconds(now)
        records = fresh.records.values()
        edges = sorted(
            {begin, *(seconds(at) for each in records for at in (each.start, each.end) if at > now)}
        )
        for since, until in pairwise(edges):
            assert kept.load.most(since, until) == fresh.load.most(since, until)
        assert self._places(kept, model, begin) == self._places(fresh, model, begin)
        return len(fresh.records)

    def _places(self, calendar: Calendar, model: str, begin: int) -> dict[str, list[tuple[object, ...]]]:
        """Node -> what lies there and is not over; the empty name -> what has no place."""
        plan = calendar.plan(self.now_there.devices.get(model, {}), ())
        on = {
            "": plan.unplaced,
            **{name: tuple(node_plan.items) for name, node_plan in plan.node_plans.items()},
        }
        return {node: [item for item in items if item.end > begin] for node, items in on.items()}

    # --- objects -----------------------------------------------------------------------------------------
    @step(3)
    def the_mirror_goes_round(self, _pick: Pick) -> str:
        """Then the objects are those of what is stored, and no others."""
        return self._after_a_round(done=self.mirror.round(), is_whole=True)

    @step(3)
    def the_mirror_writes_what_has_changed(self, _pick: Pick) -> str:
        """Only what ended too long ago may be there still."""
        done = self.mirror.brief_round()
        if self.mirror._renewal is not None:
            wait([self.mirror._renewal])
        return self._after_a_round(done=done, is_whole=False)

    def _after_a_round(self, *, done: bool, is_whole: bool) -> str:
        self.kube.calm()
        assert not self.mirror.is_stopped, self.mirror.unready_reason()
        there = {booking.name: booking for booking in self.kube.list(BOOKINGS).items}
        stored = {record.id: record for record in self.store.records_ending_after(self.clock.now() - KEPT)}
        if done:
            wanted = {key: spec_of(record, store_id=self.store.store_id) for key, record in stored.items()}
            assert {name: one.spec for name, one in there.items() if name in wanted} == wanted
            with self.store.reading() as reading:
                others = [reading.find(None, name) for name in there.keys() - wanted.keys()]
            assert all(one is not None and one.cancelled is None for one in others)
            assert not (is_whole and others)
        return f"{len(there)} objects" if done else f"it has failed; {len(there)} of {len(stored)} objects"

    @step()
    def a_call_of_the_mirror_fails_or_its_answer_is_lost(self, pick: Pick) -> str:
        verb, how = pick.one(CALLS), pick.one(("done, and no answer", *ERRORS))
        if how in ERRORS:
            self.kube.fail(verb, ERRORS[how])
        else:
            self.kube.lose(verb)
        return f"{verb}: {how}"

    @step(3)
    def the_watch_of_objects_delivers(self, pick: Pick) -> str:
        sent = min(len(self.channel.sent), pick.between(1, 3))
        return "; ".join(self.channel.deliver() for _ in range(sent)) or "nothing is new"

    @step()
    def it_repeats_an_event(self, pick: Pick) -> str:
        return (
            self.channel.say(pick.one(self.channel.delivered))
            if self.channel.delivered
            else "nothing was delivered"
        )

    @step()
    def late_events_of_objects_are_lost(self, _pick: Pick) -> str:
        return str(self.channel.lose())

    @step()
    def all_was_delivered(self, pick: Pick) -> str:
        """Late, some of it again, and what was lost by a list: who watches knows what is there."""
        self.kube.calm()
        if self.channel.has_gap:
            self.channel.list()
        sent = len(self.channel.sent)
        for _ in range(sent):
            self.channel.deliver()
            if pick.chance(3):
                self.it_repeats_an_event(pick)
        assert self.cache.bookings == {one.name: one for one in self.kube.list(BOOKINGS).items}
        return f"{sent} events, {len(self.cache.bookings)} objects"

    def settle(self) -> None:
        """When nothing fails any more, the objects are soon what is stored."""
        self.kube.calm()
        assert any(self.mirror.round() for _ in range(3)), self.mirror.unready_reason()
        there = [booking.name for booking in self.kube.list(BOOKINGS).items]
        stored = self.store.records_ending_after(self.clock.now() - KEPT)
        assert sorted(there) == sorted(record.id for record in stored)
