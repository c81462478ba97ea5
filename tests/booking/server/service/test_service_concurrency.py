"""L5: under any concurrency, and whenever the process dies, nothing is booked twice and nothing is lost."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.calendar import peak
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.records import BookingRequest, Record
from booking.server.service import BookingService
from booking.server.store import Store, open_store
from cluster.fake.clock import START, FakeClock
from tests.fakes.objects import A100
from tests.fakes.principals import somebody
from tests.fakes.records import a_request, day

THREADS = 16
FREE_FOR_ALL = Limits(cooldown=Duration(), shortest=Duration(seconds=3600))
CAPACITY = Capacity({A100: {"n0": 4}})


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'bookings.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as opened:
        yield opened


def a_service(store: Store, capacity: Capacity = CAPACITY) -> BookingService:
    return BookingService(store, FakeClock(), FREE_FOR_ALL, lambda: capacity)


def at_once(work: Callable[[int], list[Record]]) -> list[Record]:
    """The results of all threads, which began together."""
    together = threading.Barrier(THREADS)

    def begin(number: int) -> list[Record]:
        together.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return [record for got in pool.map(begin, range(THREADS)) for record in got]


def tried(book: Callable[[], Record], reason: str = "capacity") -> list[Record]:
    """The booking, or nothing when this rule refused it."""
    try:
        return [book()]
    except RefusedError as refused:
        rules = [violation.rule for violation in refused.violations]
    assert reason in rules
    return []


def request_for(*which: int) -> BookingRequest:
    """In the next weeks, for which there are far more requests than GPUs; the same for the same numbers."""
    begins, lasts, count, *_ = sha256(repr(which).encode()).digest()
    start = day(begins % 24)
    return a_request(start, start + timedelta(days=1 + lasts % 8), count=1 + count % 3)


def assert_nothing_is_booked_twice(records: list[Record], most: int) -> None:
    for record in records:
        assert peak(records, record.start, record.end) <= most


def test_l5_exactly_one_of_two_requests_for_the_last_gpu_gets_it(store: Store) -> None:
    service = a_service(store, Capacity({A100: {"n0": 1}}))
    got = at_once(lambda number: tried(lambda: service.create(somebody(f"u{number}"), a_request())))
    assert len(got) == 1
    assert store.records_ending_after(START) == got


def test_a_user_who_books_in_many_windows_at_once_has_one_planned_booking(store: Store) -> None:
    service = a_service(store)

    def book(number: int) -> list[Record]:
        # Each a month later than the other, so that only this rule can refuse it.
        request = a_request(day(30 * (THREADS - number)))
        return tried(lambda: service.create(somebody("alice"), request), "one-planned")

    assert len(at_once(book)) == 1


@pytest.mark.parametrize("seed", range(3))
def test_l5_sixteen_writers_on_a_tight_calendar_never_overbook_and_lose_nothing(
    store: Store, seed: int
) -> None:
    service = a_service(store)

    def book(number: int) -> list[Record]:
        requests = [request_for(seed, number, attempt) for attempt in range(50)]
        return [
            record
            for attempt, request in enumerate(requests)
            for record in tried(partial(service.create, somebody(f"u{number}-{attempt}"), request))
        ]

    got = at_once(book)
    stored = store.records_ending_after(START)
    assert len(got) > 10
    assert sorted(record.id for record in got) == sorted(record.id for record in stored)
    assert_nothing_is_booked_twice(stored, 4)
    assert sorted(record.change for record in stored) == list(range(1, len(stored) + 1))


def test_two_processes_on_one_file_never_overbook_either(url: str) -> None:
    # Two stores share no lock of the process: BEGIN IMMEDIATE alone keeps them apart.
    with closing(open_store(url)) as one, closing(open_store(url)) as two:
        services = [a_service(one), a_service(two)]
        got = at_once(
            lambda number: tried(lambda: services[number % 2].create(somebody(f"u{number}"), a_request()))
        )
        assert len(got) == 4
        assert one.records_ending_after(START) == two.records_ending_after(START)


WRITER = """
import sys
from datetime import timedelta
from booking.policy.limits import Limits
from booking.server.service import BookingService
from booking.server.store import open_store
from cluster.fake.clock import FakeClock
from tests.fakes.principals import somebody
from tests.fakes.records import CLUSTER, a_request, day

service = BookingService(open_store(sys.argv[1]), FakeClock(), Limits(), lambda: CLUSTER)
number = 0
while True:
    number += 1
    record = service.create(somebody(f"{sys.argv[2]}-{number}"), a_request(day(2 * number)))
    print(record.id, flush=True)
"""


def killed_after(url: str, name: str, answers: int) -> list[str]:
    """The ids that a writing process has printed before it was killed in the middle of its work."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, url, name], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert writer.stdout
    with writer:
        printed = [writer.stdout.readline() for _ in range(answers)]
        os.kill(writer.pid, signal.SIGKILL)
        return [line.strip() for line in (*printed, *writer.stdout)]


def test_l9_every_answered_booking_is_stored_after_kill_9(url: str) -> None:
    printed: list[str] = []
    for number, answers in enumerate((1, 4, 9)):
        printed += killed_after(url, f"u{number}", answers)
        with closing(open_store(url)) as store:
            stored = [record.id for record in store.records_ending_after(START)]
            assert set(printed) <= set(stored)
            # At most the one that was written and not yet printed, for each kill.
            assert len(stored) - len(printed) <= number + 1
            assert store.change() == len(stored)
            store.check()
