"""Keeps the Booking objects equal to the booking database: level-triggered, one round at a time.

Each round compares the stored bookings with the objects and writes the difference; ``status`` is never
touched. When the database is not the one that the objects come from, the mirror stops and reports it: it
deletes nothing, and its Lease becomes stale, so that no pods are ended (laws L6 and L9). It continues by
itself when the reason has disappeared.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

import structlog

from booking.server.errors import StoreError, StoreGoneError
from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.plan import KEPT, plan
from booking.server.mirror.store_identity import older_than_written, strangers_among, unknown_among
from booking.server.mirror.writes import Writes
from booking.server.records import Record
from cluster.kube.backoff import Backoff
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking
from cluster.process.clock import Clock
from cluster.process.stop_events import call_at

log = structlog.get_logger(__name__)

EVERY: Final = 5.0
"""Seconds between two rounds when nothing triggers one."""
HEALTHY_FOR: Final = 30.0
"""Seconds after the last complete round in which bookings can still be guaranteed."""
PAGE: Final = 500


class Source(Protocol):
    """The booking database, as the mirror reads it. Raises ``StoreError``."""

    @property
    def store_id(self) -> str:
        """Which database this is."""
        ...

    def check(self) -> None:
        """Raise ``StoreGoneError`` when the file is missing or has been replaced."""
        ...

    def change(self) -> int:
        """Number of the newest change."""
        ...

    def records_ending_after(self, instant: datetime) -> Sequence[Record]:
        """Bookings that are not cancelled and end later."""
        ...

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the given ids that the database has, cancelled and long ended bookings included."""
        ...


class UnknownStoreError(Exception):
    """The objects and the database do not belong together: a person must decide (law L9)."""


@dataclass
class _Waiter:
    change: int
    reached: threading.Event = field(default_factory=threading.Event)


class Mirror:
    """The mirror. ``run`` is the body of its thread; everything else is thread-safe."""

    def __init__(
        self,
        kube: Kube,
        store: Source,
        clock: Clock,
        *,
        lease: MirrorLease,
        metrics: ServerMetrics,
        resources: Callable[[], Mapping[str, str]] = dict,
        every: float = EVERY,
    ) -> None:
        self._kube = kube
        self._store = store
        self._clock = clock
        self._lease = lease
        self._writes = Writes(kube, metrics)
        self._resources = resources
        self._every = every
        self._backoff = Backoff(longest=every)
        self._triggered = threading.Event()
        self._lock = threading.Lock()
        self._waiters: list[_Waiter] = []
        self._written = -1
        self._complete: float | None = None
        self._alarm: str | None = None
        self._problem: str | None = None

    # --- for other threads ----------------------------------------------------------------------------------
    def trigger(self) -> None:
        """Begin a round now, since the database has changed."""
        self._triggered.set()

    def written(self, change: int, timeout: float) -> bool:
        """Wait until this change is written to the cluster; returns whether it is.

        Args:
            change: ``Record.change`` of what was stored.
            timeout: seconds.
        """
        with self._lock:
            if self._written >= change:
                return True
            waiter = _Waiter(change)
            self._waiters.append(waiter)
        self._clock.wait(waiter.reached, timeout)
        with self._lock:
            self._waiters.remove(waiter)
        return waiter.reached.is_set()

    def unready_reason(self) -> str | None:
        """Why no booking can be guaranteed now, None when one can."""
        alarm, problem, age = self._alarm, self._problem, self.age()
        if alarm:
            return alarm
        if age is not None and age <= HEALTHY_FOR:
            return None
        since = "yet" if age is None else f"for more than {HEALTHY_FOR:.0f} seconds"
        message = f"The bookings have not been written to the cluster {since}."
        return f"{message} {problem}" if problem else message

    def age(self) -> float | None:
        """Seconds since the newest complete round, None before the first."""
        complete = self._complete
        return None if complete is None else self._clock.monotonic() - complete

    @property
    def is_stopped(self) -> bool:
        """Whether the alarm of law L9 is on."""
        return self._alarm is not None

    # --- the thread --------------------------------------------------------------------------------------
    def run(self, stop: threading.Event) -> None:
        """Run one round after the other until ``stop`` is set."""
        call_at(stop, self.trigger)
        while not stop.is_set():
            self._triggered.clear()
            if self.round():
                self._backoff.reset()
                pause = self._every
            else:
                pause = self._backoff.next()
            self._clock.wait(self._triggered, pause)

    def round(self) -> bool:
        """Compare and write once. Returns whether the objects are now true and the Lease is renewed."""
        try:
            self._write_all()
        except (UnknownStoreError, StoreGoneError) as error:
            self._stop(str(error))
            return False
        except (ApiError, StoreError) as error:
            self._failed(str(error))
            return False
        self._problem = None
        return True

    def _write_all(self) -> None:
        self._store.check()
        # The cluster is read first: its objects were stored before they were mirrored, so the database has
        # them.
        there = self._there()
        written = self._lease.written(self._store.store_id)
        change = self._store.change()
        self._compare_stores(there, change, written)
        wanted = self._store.records_ending_after(self._clock.now() - KEPT)
        self._store.check()
        self._go_on()
        self._writes.send(plan(wanted, there, store_id=self._store.store_id, resources=self._resources()))
        self._reached(change)
        self._lease.renew(change, self._store.store_id)
        self._complete = self._clock.monotonic()

    def _there(self) -> list[Booking]:
        found: list[Booking] = []
        token: str | None = None
        while True:
            page = self._kube.list(BOOKINGS, Selection(), limit=PAGE, continue_=token)
            found += page.items
            token = page.continue_
            if token is None:
                return found

    def _compare_stores(self, there: Sequence[Booking], change: int, written: int | None) -> None:
        """Refuse to go on when what is in the cluster is not this database's (law L9)."""
        problem = strangers_among(there, store_id=self._store.store_id)
        if not problem:
            known = self._store.known(booking.name for booking in there)
            forgotten = (
                unknown_among(there, known),
                older_than_written(change, written, lease=self._lease.kubectl_name),
            )
            problem = " ".join(filter(None, forgotten))
        if problem:
            raise UnknownStoreError(problem)

    # --- logs and metrics -----------------------------------------------------------------------------------
    def _reached(self, change: int) -> None:
        with self._lock:
            self._written = change
            for waiter in self._waiters:
                if waiter.change <= change:
                    waiter.reached.set()

    def _stop(self, message: str) -> None:
        if message != self._alarm:
            log.error("the mirror has stopped: an administrator must decide", reason=message)
        self._alarm = message

    def _go_on(self) -> None:
        if self._alarm:
            log.warning("the mirror continues: objects and database match again")
        self._alarm = None

    def _failed(self, message: str) -> None:
        log.warning("the bookings could not be written to the cluster, trying again", error=message)
        self._problem = message
