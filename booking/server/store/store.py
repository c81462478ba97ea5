"""An open booking database of any kind. ``open_store`` creates it.

Connections stay open; before each transaction the engine checks that the database is still the one that was
opened, and each transaction first reads its identity (law L9). Writers take turns
(``booking.server.store.group_commit``): SQLite's own waiting is unfair, at worst a hundred times slower, and
one commit stores the writes of many.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeVar

import peewee

from booking.server.errors import StoreError, StoreGoneError
from booking.server.records import Record
from booking.server.store.connection import Connection
from booking.server.store.engine import Engine, message, readable_errors
from booking.server.store.group_commit import GroupCommit, PendingWrite
from booking.server.store.pool import Pool
from booking.server.store.queries import Reading, Writing

T = TypeVar("T")
_ATTEMPTS: Final = 5
"""Attempts at a turn whose connection is lost, each on a new connection."""


class Store:
    """An open booking database. Thread-safe."""

    def __init__(self, engine: Engine, *, store_id: str, incarnation: int) -> None:
        self._engine = engine
        self._store_id = store_id
        self._incarnation = incarnation
        self._pool = Pool(engine)
        self._turns = GroupCommit(self._store_all)

    @property
    def store_id(self) -> str:
        """Random, made when the database was created; a copy keeps it."""
        return self._store_id

    def expect_writers(self) -> None:
        """Prepare for many writers: a process that lives long calls it once, before the first of them."""
        self._engine.expect_writers()

    def check(self) -> None:
        """Check that the database is still the one that was opened.

        Raises:
            StoreGoneError: it is missing, is another file, has another store id, or was restored (law L9).
            StoreError: it cannot be read.
        """
        with self.reading():
            pass

    def change(self) -> int:
        """Number of the newest change, 0 before the first; it grows with every write and never decreases."""
        with self.reading() as reading:
            return reading.change()

    def records_ending_after(self, instant: datetime) -> list[Record]:
        """Bookings of all users that are not cancelled and end after the instant, by start and id."""
        with self.reading() as reading:
            return reading.ending_after(instant)

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the given ids that are stored, cancelled and long ended bookings included (law L9)."""
        with self.reading() as reading:
            return reading.known(ids)

    def changed_after(self, change: int) -> tuple[int, list[Record]]:
        """Number of the newest change, and the bookings, cancelled ones too, written after this one."""
        with self.reading() as reading:
            return reading.change(), reading.changed_after(change)

    def write(self, decide: Callable[[Writing], T]) -> T:
        """Run a writing transaction; returns the result of ``decide`` once it is stored.

        No other transaction writes meanwhile, so what was decided on is still true when it is written.

        Args:
            decide: may be called again, in any thread, and its writes may be stored in one commit with
                others'. So it changes nothing but its argument, waits for nothing and uses no network. An
                error that it raises rolls its own writes back and reaches the caller.

        Raises:
            StoreError: the database cannot be used.
        """
        result: T = self._turns.submit(decide)
        return result

    def read(self, ask: Callable[[Reading], T]) -> T:
        """Run a reading transaction: everything is from the same moment.

        Raises:
            StoreError: the database cannot be used.
        """
        with self.reading() as reading:
            return ask(reading)

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """A reading transaction that lasts as long as the block.

        Raises:
            StoreError: the database cannot be used.
        """
        self._engine.check()
        with readable_errors(self._engine.name), self._pool.begun(self._engine.reads) as line:
            yield Reading(line, self._change_of(line, self._engine.asks))
            line.commit()

    def close(self) -> None:
        """Close it, when it is not used any more."""
        self._pool.close()
        self._engine.close()

    # --- turns of writers --------------------------------------------------------------------------------
    def _store_all(self, turn: Sequence[PendingWrite]) -> None:
        """Run writes in one transaction; if one of them has written and then failed, each in its own."""
        try:
            if not self._is_stored(turn):
                for pending in turn:
                    self._store_alone(pending)
        except BaseException as error:
            for pending in turn:
                if not pending.is_done:
                    pending.fail(error)
            if not isinstance(error, Exception):
                raise

    def _store_alone(self, pending: PendingWrite) -> None:
        try:
            self._is_stored([pending])
        except StoreError as error:
            pending.fail(error)

    def _is_stored(self, turn: Sequence[PendingWrite]) -> bool:
        """Whether it is; if not, nothing is, and no write has an answer yet."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._engine.check()
            committing = False
            try:
                with self._pool.begun(self._engine.writes) as line:
                    writing = Writing(line, self._change_of(line, self._engine.locks))
                    answers = [(pending, _answer(pending, writing, alone=len(turn) == 1)) for pending in turn]
                    writing.finish()
                    committing = True
                    line.commit()
            except _RollbackError as spoilt:
                if len(turn) > 1:
                    return False
                turn[0].fail(_public_error(self._engine.name, spoilt.reason))
                return True
            except peewee.PeeweeException as error:
                if committing or attempt == _ATTEMPTS or not self._engine.is_lost(error):
                    raise message(self._engine.name, error) from error
            else:
                self._engine.committed()
                for pending, answer in answers:
                    answer(pending)
                return True
        raise AssertionError("unreachable")

    def _change_of(self, line: Connection, ask: str) -> int:
        """Read the number of the newest change, in a transaction that has just begun; checks the identity."""
        rows = line.rows(ask)
        if not rows:
            raise StoreError(
                f"The booking database {self._engine.name} has no identity: it is damaged, restore"
                " it from a backup."
            )
        ((store_id, incarnation, change),) = rows
        if (store_id, incarnation) != (self._store_id, self._incarnation):
            raise overwritten(self._engine.name)
        return int(change)


def overwritten(name: str) -> StoreGoneError:
    """The error for a place that now holds another database."""
    return StoreGoneError(
        f"The booking database {name} was overwritten while the booking server had it open: see that the "
        "right one is there and start the booking server again."
    )


class _RollbackError(Exception):
    """A write has failed after it had changed something, or the database has refused a statement of it."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _answer(pending: PendingWrite, writing: Writing, *, alone: bool) -> Callable[[PendingWrite], None]:
    """Run a write; returns how to answer it once the turn is stored."""
    before = writing.writes
    try:
        result = pending.decide(writing)
    except (peewee.OperationalError, peewee.InterfaceError):
        raise
    except Exception as error:
        if alone or isinstance(error, peewee.PeeweeException) or writing.writes != before:
            raise _RollbackError(error) from error
        reason = error
        return lambda each: each.fail(reason)
    return lambda each: each.succeed(result)


def _public_error(name: str, error: BaseException) -> BaseException:
    return message(name, error) if isinstance(error, peewee.PeeweeException) else error
