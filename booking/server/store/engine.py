"""The differences between the databases, from the store's point of view."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import peewee

from booking.server.errors import StoreError
from booking.server.store.connection import Connection


class Engine(Protocol):
    """A kind of database: how to connect to it, and the statements that differ from others'."""

    @property
    def name(self) -> str:
        """For messages: never with a password."""
        ...

    @property
    def reads(self) -> str:
        """The statement that begins a transaction on one snapshot."""
        ...

    @property
    def writes(self) -> str:
        """The statement that begins a transaction that will write."""
        ...

    @property
    def asks(self) -> str:
        """The first statement of a reading transaction: (store id, incarnation, newest change).

        The incarnation changes with a restore, which keeps the store id.
        """
        ...

    @property
    def locks(self) -> str:
        """The first statement of one that will write, after which no other process writes: the same."""
        ...

    def expect_writers(self) -> None:
        """Prepare for many writers, which may take some ten milliseconds."""
        ...

    def check(self) -> None:
        """Check that it still is the database that was opened, as far as possible without querying it.

        Raises:
            StoreGoneError: it is not (law L9).
        """
        ...

    def connect(self) -> Connection:
        """A new connection.

        Raises:
            peewee.PeeweeException: none can be opened.
        """
        ...

    def committed(self) -> None:
        """A transaction that has written was committed; returns at once."""
        ...

    def is_lost(self, error: peewee.PeeweeException) -> bool:
        """Whether an error means that the same may succeed at once on a new connection."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...


@contextmanager
def readable_errors(name: str) -> Iterator[None]:
    """Turn errors of the database into a StoreError, so that callers need not know peewee."""
    try:
        yield
    except peewee.PeeweeException as error:
        raise message(name, error) from error


def message(name: str, error: Exception) -> StoreError:
    """The public text of an error: its first line, which names no values."""
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return StoreError(f"The booking database {name} cannot be used: {text}.")
