"""Sixteen writers book at once: through the service with its database, and the whole REST server, no cluster.

Afterwards the calendar is full to the last GPU, exactly the answered bookings are stored, and one more is
refused.
"""

import http.client
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.calendar import peak
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.records import BookingRequest
from booking.server.service import BookingService
from booking.server.store import Store, open_store
from cluster.process.clock import SystemClock
from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Row, Target
from tests.bench.writers import WRITERS, Written, ask, in_turns_with_inserts, kinds_of, rows_of
from tests.databases import PostgresServer
from tests.fakes.objects import A100
from tests.fakes.principals import somebody

EACH: Final = 10
"""Bookings of each writer per turn."""
TURNS: Final = 3
GPUS: Final = WRITERS * EACH * TURNS
CAPACITY: Final = Capacity({A100: {"n0": GPUS}})
REQUEST: Final = {"model": A100, "duration": "P2D"}
POLICY: Final = Limits(cooldown=Duration())
_SERVICE: Final = kinds_of("service", f"{WRITERS} writers book: rules, calendar and SQLite, 0 to {GPUS} live")
_ON_SERVER: Final = kinds_of("service-postgresql", f"{WRITERS} writers book: the same on PostgreSQL")
_HTTP: Final = kinds_of(
    "http",
    f"{WRITERS} writers book over HTTP: the same behind the REST server",
    rate=None,
    p99=Target(value=50),
)


def measure(_lab: Lab) -> Iterator[Row]:
    """Every way to book, each in turns with its floor."""
    with tempfile.TemporaryDirectory() as folder:
        yield from rows_of(_SERVICE, *_by_service(url(Path(folder)), Path(folder)))
    with closing(PostgresServer(durable=True)) as server:
        yield from rows_of(_ON_SERVER, *_by_service(server.new_url(), server.new_url()))
    with tempfile.TemporaryDirectory() as folder:
        yield from rows_of(_HTTP, *_over_http(Path(folder)))


def _by_service(ours: str, floor_of: Path | str) -> tuple[Written, Written]:
    with closing(open_store(ours)) as store:
        store.expect_writers()
        service = BookingService(store, SystemClock(), POLICY, lambda: CAPACITY)

        def book(writer: int, number: int) -> None:
            service.create(somebody(f"user-{writer}-{number}"), request())

        measured = in_turns_with_inserts(floor_of, book, turns=TURNS, each=EACH)
        check(store)
        try:
            service.create(somebody("user-late"), request())
        except RefusedError:
            return measured
    raise RuntimeError(f"{GPUS} GPUs were booked once more than there are: law L5 is broken.")


def _over_http(folder: Path) -> tuple[Written, Written]:
    with child("tests.bench.writers_server", str(folder)) as port:
        lines = [http.client.HTTPConnection("127.0.0.1", int(port)) for _ in range(WRITERS)]

        def book(writer: int, number: int) -> None:
            answer = ask(lines[writer], f"user-{writer}-{number}", **REQUEST)
            if answer != HTTPStatus.CREATED:
                raise RuntimeError(f"A booking was answered with {answer}.")

        measured = in_turns_with_inserts(folder, book, turns=TURNS, each=EACH)
        late = ask(lines[0], "user-late", **REQUEST)
        for line in lines:
            line.close()
    with closing(open_store(url(folder))) as store:
        check(store)
    if late != HTTPStatus.UNPROCESSABLE_ENTITY:
        raise RuntimeError(f"One booking more than there are GPUs was answered with {late}.")
    return measured


def url(folder: Path) -> str:
    """The URL of the database in a folder."""
    return f"sqlite:///{folder / 'bookings.db'}"


def request() -> BookingRequest:
    """A request for one GPU, now, for two days."""
    return BookingRequest(model=A100, end=SystemClock().now() + timedelta(days=2))


def check(store: Store) -> None:
    """Check that all bookings are stored, and that no two of them are guaranteed the same GPU (law L5)."""
    records = store.records_ending_after(SystemClock().now())
    most = max(peak(records, record.start, record.end) for record in records)
    if len(records) != GPUS or most > GPUS:
        raise RuntimeError(f"{len(records)} bookings of {GPUS} are stored, {most} GPUs at once.")


MEASURE: Final = Measure("writers", (*_SERVICE.values(), *_ON_SERVER.values(), *_HTTP.values()), measure)
