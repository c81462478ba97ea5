"""Keeps the Booking objects equal to the booking database: level-triggered, one round at a time.

A whole round, every five seconds, compares all stored bookings with all objects and writes the difference;
``status`` is never touched. What is stored in between is written at once by brief rounds: they look only at
the bookings that have changed, and take the others for what they were. When the database is not the one that
the objects come from, the mirror stops and reports it: it deletes nothing, and its Lease becomes stale, so
that no pods are ended (laws L6 and L9). It continues by itself when the reason has disappeared.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
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
"""Seconds between two whole rounds."""
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

    def changed_after(self, change: int) -> tuple[int, Sequence[Record]]:
        """Number of the newest change, and the bookings, cancelled ones too, written after this one."""
        ...


class UnknownStoreError(Exception):
    """The objects and the database do not belong together: a person must decide (law L9)."""


@dataclass
class _Waiter:
    change: int
    reached: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Written:
    """What the cluster has, as far as this process knows: from the last whole round, and its own writes."""

    change: int
    """The newest change of the database that is in it."""
    objects: dict[str, Booking]
    whole_at: float
    """When the last whole round ended, by the clock's monotonic time."""


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
        self._there: _Written | None = None
        """None until the next whole round: before the first, and after every failure."""
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="mirror-lease")
        self._renewal: Future[None] | None = None
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
            if self.brief_round() if self._seconds_left() > 0 else self.round():
                self._backoff.reset()
                pause = self._seconds_left()
            else:
                pause = self._backoff.next()
            self._clock.wait(self._triggered, pause)

    def _seconds_left(self) -> float:
        """Until the next whole round is due."""
        there = self._there
        return 0.0 if there is None else max(0.0, there.whole_at + self._every - self._clock.monotonic())

    def round(self) -> bool:
        """Compare all, and write. Returns whether the objects are now true and the Lease is renewed."""
        return self._succeeds(self._write_all)

    def brief_round(self) -> bool:
        """Write what was stored since the last round; a whole round where that is not known.

        The Lease is renewed while the next round has begun: who waits for the objects need not wait for it.
        """
        return self._succeeds(self._write_changed)

    def _succeeds(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except (UnknownStoreError, StoreGoneError) as error:
            self._there = None
            self._stop(str(error))
            return False
        except (ApiError, StoreError) as error:
            self._there = None
            self._failed(str(error))
            return False
        self._problem = None
        return True

    def _write_all(self) -> None:
        self._there = None
        with suppress(ApiError):  # it is renewed again below
            self._await_renewal()
        self._store.check()
        # The cluster is read first: its objects were stored before they were mirrored, so the database has
        # them.
        there = self._listed()
        written = self._lease.written(self._store.store_id)
        change = self._store.change()
        self._compare_stores(there, change, written)
        wanted = self._store.records_ending_after(self._clock.now() - KEPT)
        self._store.check()
        self._go_on()
        writes = plan(wanted, there, store_id=self._store.store_id, resources=self._resources())
        objects = {booking.name: booking for booking in there}
        _note(objects, self._writes.send(writes))
        self._reached(change)
        self._lease.renew(change, self._store.store_id)
        self._complete = now = self._clock.monotonic()
        self._there = _Written(change, objects, now)

    def _write_changed(self) -> None:
        there = self._there
        if there is None:
            self._write_all()
            return
        change, records = self._store.changed_after(there.change)
        if change < there.change:
            self._write_all()
            return
        if change == there.change:
            return
        since = self._clock.now() - KEPT
        wanted = [record for record in records if record.cancelled is None and record.end > since]
        present = [there.objects[record.id] for record in records if record.id in there.objects]
        writes = plan(wanted, present, store_id=self._store.store_id, resources=self._resources())
        _note(there.objects, self._writes.send(writes))
        self._reached(change)
        there.change = change
        self._await_renewal()
        self._renewal = self._beside.submit(self._lease.renew, change, self._store.store_id)

    def _await_renewal(self) -> None:
        """Wait until the Lease is written; raises what has kept it from that."""
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.result()

    def _listed(self) -> list[Booking]:
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


def _note(objects: dict[str, Booking], written: Mapping[str, Booking | None]) -> None:
    """Bring what is known up to date with what was written."""
    for name, booking in written.items():
        if booking is None:
            objects.pop(name, None)
        else:
            objects[name] = booking
