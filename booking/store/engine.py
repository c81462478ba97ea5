"""What differs between the databases, as the store sees it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import peewee

from booking.errors import StoreError
from booking.store.connection import Connection


class Engine(Protocol):
    """A database of one kind: how to connect to it, and the statements in which it differs from others."""

    @property
    def name(self) -> str:
        """For messages: never with a password."""
        ...

    @property
    def reads(self) -> str:
        """The statement that begins a transaction of one moment."""
        ...

    @property
    def writes(self) -> str:
        """The statement that begins a transaction that will write."""
        ...

    @property
    def asks(self) -> str:
        """The first statement of a transaction that reads: (store id, incarnation, newest change).

        The incarnation is another number after a restore, which leaves the store id as it was.
        """
        ...

    @property
    def locks(self) -> str:
        """The first statement of one that will write, after which no other process writes: the same."""
        ...

    def check(self) -> None:
        """See that it still is what was opened, as far as that is known without asking it.

        Raises:
            StoreGoneError: it is not (law L9).
        """
        ...

    def connect(self) -> Connection:
        """A new connection.

        Raises:
            peewee.PeeweeException: there is none to be had.
        """
        ...

    def is_lost(self, error: peewee.PeeweeException) -> bool:
        """Whether an error says that the same may succeed on a new connection, now."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...


@contextmanager
def readable_errors(name: str) -> Iterator[None]:
    """Errors of the database become a StoreError; nobody outside needs peewee to understand them."""
    try:
        yield
    except peewee.PeeweeException as error:
        raise message(name, error) from error


def message(name: str, error: Exception) -> StoreError:
    """The public text of an error: its first line, which names no values."""
    said = str(error).strip().partition("\n")[0].rstrip(".")
    return StoreError(f"The booking database {name} cannot be used: {said}.")
