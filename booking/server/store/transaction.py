"""The base of all reads and writes in one transaction."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from booking.server.store.connection import Connection

T = TypeVar("T")


def can_be_stored(text: str) -> bool:
    """Whether every database could store this text: PostgreSQL neither stores nor finds one with a NUL."""
    return "\0" not in text


class Transaction:
    """A transaction that has begun."""

    def __init__(self, line: Connection, change: int) -> None:
        self._line = line
        self._change = change
        self._kept: dict[tuple[str, tuple[object, ...]], Any] = {}

    def change(self) -> int:
        """Number of the newest change, the transaction's own included."""
        return self._change

    @property
    def has_written(self) -> bool:
        """Whether it sees uncommitted writes: its own, or of the writers that are committed with it."""
        return False

    def _once(self, statement: str, *values: object, read: Callable[[tuple[Any, ...]], T]) -> Sequence[T]:
        """The result of a query as structs; queried again only after a write."""
        kept: Sequence[T] | None = self._kept.get((statement, values))
        if kept is None:
            kept = self._kept[statement, values] = [read(row) for row in self._line.rows(statement, *values)]
        return kept

    def _all(self, query: Any) -> Iterable[dict[str, Any]]:
        found: Iterable[dict[str, Any]] = query.dicts().execute(self._line.database)
        return found


class WritingTransaction(Transaction):
    """A transaction that holds the writers' lock."""

    def __init__(self, line: Connection, change: int) -> None:
        super().__init__(line, change)
        self._stored_change = change
        self.writes = 0
        """Number of statements that have changed something."""

    @property
    def has_written(self) -> bool:
        """Whether it has changed anything; all of that may still be rolled back."""
        return self.writes > 0

    def finish(self) -> None:
        """Write the number of the newest change, once per transaction, however much was changed."""
        if self._change != self._stored_change:
            self._line.run("UPDATE meta SET change = ? WHERE id = 1", self._change)
            self._stored_change = self._change

    def _next_change(self) -> int:
        self._change += 1
        return self._change

    def _do(self, query: Any) -> None:
        self.writes += 1
        self._kept.clear()
        query.execute(self._line.database)

    def _run(self, statement: str, *values: object) -> int:
        self.writes += 1
        return self._line.run(statement, *values)
