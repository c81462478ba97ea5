"""Sixteen writers at once, in turns with a floor: the same transaction with a bare INSERT of equal rows.

The floor uses the same kind of database with the same settings, and as many threads, whose connections stay
open. On SQLite the transaction waits for a lock of the process, since SQLite's own waiting would be unfair.
On PostgreSQL it locks the store's row and counts the change, as every writing transaction does.
"""

import http.client
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from booking.server.store import open_store
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import seconds

WRITERS: Final = 16
PERCENTS: Final = (50, 99)
HALF: Final = Target(ratio=0.5, at_least=True)
TEN_TIMES: Final = Target(ratio=10)
_FLOOR: Final = f"bare INSERT by {WRITERS} threads, same database, settings and lock"
_INSERT: Final = """
    INSERT INTO bookings (id, "user", model, gpus, topology, starts, ends, created, change)
    VALUES (?, ?, 'NVIDIA-A100', 1, 'any', 1, 2, 1, ?)
"""
_OF_POSTGRES: Final = _INSERT.replace("?", "%s")
_LOCK: Final = "SELECT change FROM meta WHERE id = 1 FOR UPDATE"
_COUNT: Final = "UPDATE meta SET change = change + 1 WHERE id = 1"

Write = Callable[[int, int], object]
"""One write, by the numbers of its writer and of the write; raises if it is refused."""


def kinds_of(
    name: str,
    what: str,
    *,
    rate: Target | None = HALF,
    p99: Target = TEN_TIMES,
    floor: str = _FLOOR,
) -> dict[str, Kind]:
    """The rows of one way to book: ``rate``, ``p50``, ``p99``."""
    slow = {99: p99}
    times = {
        f"p{p}": Kind(f"book-{name}-p{p}", f"the same: one booking, p{p}", "ms", floor, slow.get(p))
        for p in PERCENTS
    }
    return {"rate": Kind(f"book-{name}-rate", what, "1/s", floor, rate), **times}


def ask(line: http.client.HTTPConnection, token: str, **request: object) -> int:
    """Request a booking from the booking server's REST API; the status of the answer."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    line.request("POST", "/api/v1/bookings", json.dumps(request), headers)
    answer = line.getresponse()
    answer.read()
    return answer.status


@dataclass
class Written:
    """The measurements of one way to write, over all turns."""

    spans: list[float] = field(default_factory=list)
    """Seconds of each turn."""
    times: list[float] = field(default_factory=list)
    """Seconds of each write."""

    @property
    def rate(self) -> float:
        """Writes per second."""
        return len(self.times) / sum(self.spans)


def rows_of(kinds: Mapping[str, Kind], ours: Written, floor: Written) -> Iterator[Row]:
    """The rows with their numbers."""
    yield kinds["rate"].row(ours.rate, floor.rate)
    for percent in PERCENTS:
        both = (1000 * percentile(written.times, percent) for written in (ours, floor))
        yield kinds[f"p{percent}"].row(*both)


def in_turns_with_inserts(
    floor_of: Path | str, write: Write, *, turns: int, each: int
) -> tuple[Written, Written]:
    """Our way and bare INSERTs.

    Args:
        floor_of: a folder for the floor's database on the same disk as ours, or the URL of one on a server.
        write: gets numbers that never repeat.
        turns: the number of turns of each.
        each: writes of each writer per turn.
    """
    floors = RowsOfServer(floor_of) if isinstance(floor_of, str) else Inserts(floor_of / "floor.db")
    with closing(floors) as inserts:
        return in_turns(inserts.write, write, turns=turns, each=each)


def in_turns(bare: Write, write: Write, *, turns: int, each: int) -> tuple[Written, Written]:
    """Our way and the floor, alternately; both get numbers that never repeat."""
    ours, floor = Written(), Written()
    for turn in range(turns):
        numbers = range(turn * each, (turn + 1) * each)
        _all_write(write, numbers, ours)
        _all_write(bare, numbers, floor)
    return ours, floor


def _all_write(write: Write, numbers: range, written: Written) -> None:
    """All writers at once, each of which makes one write after the other."""
    together = threading.Barrier(WRITERS + 1)

    def writer(number: int) -> list[float]:
        together.wait()
        return [seconds(partial(write, number, each)) for each in numbers]

    with ThreadPoolExecutor(WRITERS) as pool:
        futures = [pool.submit(writer, number) for number in range(WRITERS)]
        together.wait()
        written.spans.append(seconds(lambda: written.times.extend(t for f in futures for t in f.result())))


class RowsOfServer:
    """The floor on PostgreSQL."""

    def __init__(self, url: str) -> None:
        open_store(url).close()
        self._connections = [psycopg.connect(url, autocommit=True) for _ in range(WRITERS)]

    def write(self, writer: int, number: int) -> None:
        """One transaction with one row."""
        connection, name = self._connections[writer], f"b-{writer}-{number}"
        connection.execute("BEGIN")
        connection.execute(_LOCK)
        connection.execute(_OF_POSTGRES, (name, name, number))
        connection.execute(_COUNT)
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()


class Inserts:
    """The floor on SQLite."""

    def __init__(self, path: Path) -> None:
        open_store(f"sqlite:///{path}").close()
        self._lock = threading.Lock()
        self._connections = [_connection(path) for _ in range(WRITERS)]

    def write(self, writer: int, number: int) -> None:
        """One transaction with one row."""
        connection, name = self._connections[writer], f"b-{writer}-{number}"
        with self._lock:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_INSERT, (name, name, number))
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()


def _connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection
