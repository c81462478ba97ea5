"""The database is gone for a while: nothing is booked, nothing is lost, and it continues by itself."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from booking.server.store import Store, StoreError, Writing, open_store
from cluster.fake.clock import eventually
from tests.databases import PostgresServer
from tests.fakes.records import a_record, day

pytestmark = pytest.mark.component
WRITERS: Final = 8


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this test's own, which may be stopped."""
    with closing(PostgresServer()) as made:
        yield made


@pytest.fixture
def store(server: PostgresServer) -> Iterator[Store]:
    server.start()
    with closing(open_store(server.new_url())) as opened:
        yield opened


def add(store: Store, name: str) -> int:
    return store.write(lambda writing: writing.add(a_record(id=name))).change


def ids(store: Store) -> list[str]:
    return [record.id for record in store.records_ending_after(day(0))]


def test_a_restarted_server_has_lost_nothing(store: Store, server: PostgresServer) -> None:
    assert add(store, "b-1") == 1
    server.stop()
    for ask in (store.check, store.change, lambda: ids(store), lambda: add(store, "b-2")):
        with pytest.raises(StoreError, match="cannot be used"):
            ask()
    server.start()
    assert add(store, "b-3") == 2
    assert ids(store) == ["b-1", "b-3"]
    store.check()


def test_a_restart_of_the_server_between_two_requests_is_not_noticed(
    store: Store, server: PostgresServer
) -> None:
    assert add(store, "b-1") == 1
    server.stop()
    server.start()
    assert ids(store) == ["b-1"]
    assert add(store, "b-2") == 2


def test_a_server_that_dies_within_a_transaction_stores_nothing_of_it(
    store: Store, server: PostgresServer
) -> None:
    def decide(writing: Writing) -> None:
        writing.add(a_record(id="b-lost"))
        server.stop()
        writing.add(a_record(id="b-too"))

    with pytest.raises(StoreError):
        store.write(decide)
    server.start()
    assert ids(store) == []
    assert add(store, "b-1") == 1


def test_calls_do_not_wait_for_a_frozen_server_and_nothing_is_lost_when_it_continues(
    server: PostgresServer,
) -> None:
    server.start()
    with closing(open_store(f"{server.new_url()}&answer_timeout=1&connect_timeout=2")) as store:
        assert add(store, "b-1") == 1
        with store.reading(), store.reading():
            pass  # two connections are idle now
        with server.standing_still():
            for ask in (store.check, lambda: ids(store), lambda: add(store, "b-2")):
                with pytest.raises(StoreError, match="cannot be used"):
                    ask()
        assert ids(store) == ["b-1"]
        assert add(store, "b-3") == 2


class Writers:
    """Threads that book repeatedly, whatever the answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.stored: list[str] = []
        """Ids of what was said to be stored."""
        self.failed: list[str] = []

    def write(self, number: int) -> None:
        """Book until the test ends."""
        for attempt in count():
            if self._over.is_set():
                return
            name = f"b-{number}-{attempt}"
            try:
                add(self._store, name)
            except StoreError:
                answered = self.failed
            else:
                answered = self.stored
            with self._lock:
                answered.append(name)

    def until(self, answered: list[str]) -> None:
        """Wait until each writer has had this answer from now on."""
        with self._lock:
            before = len(answered)

        def whose() -> set[str]:
            with self._lock:
                return {name.rpartition("-")[0] for name in answered[before:]}

        eventually(lambda: len(whose()) == WRITERS)

    def end(self) -> None:
        """Let each writer end."""
        self._over.set()


def test_a_writer_whose_server_stops_gets_an_error_and_answered_bookings_are_stored(
    store: Store, server: PostgresServer
) -> None:
    writers = Writers(store)
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(writers.write, number) for number in range(WRITERS)]
        try:
            for _ in range(2):
                writers.until(writers.stored)
                server.stop()
                writers.until(writers.failed)
                server.start()
            writers.until(writers.stored)
        finally:
            writers.end()
        for each in writing:
            each.result()
    stored = set(ids(store))
    assert set(writers.stored) <= stored
    # When the connection broke in COMMIT it is unknown: the booking is stored completely, or not at all.
    assert stored <= {*writers.stored, *writers.failed}
    with store.reading() as reading:
        assert reading.change() == len(stored)


def test_no_message_shows_the_password(server: PostgresServer) -> None:
    url = server.new_url()
    server.stop()
    with pytest.raises(StoreError) as refused:
        open_store(url.replace("postgres@", "postgres:hush@"))
    server.start()
    assert "cannot be used" in str(refused.value)
    assert "hush" not in f"{refused.value}{refused.value.__cause__!r}"


def test_a_file_that_another_process_has_locked_is_written_to_when_it_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    with (
        closing(open_store(f"sqlite:///{path}")) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            add(store, "b-1")
        assert ids(store) == []
        other.execute("COMMIT")
        assert add(store, "b-2") == 1
        assert ids(store) == ["b-2"]
