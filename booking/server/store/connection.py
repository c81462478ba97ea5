"""One connection to the booking database."""

from functools import cache
from typing import Any, Final

import peewee

_QUESTION: Final = "?"


class Connection:
    """A connection, used by one thread at a time; peewee's queries are executed on ``database``."""

    def __init__(self, database: Any) -> None:
        self.database = database
        self._param: str = database.param

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement; ``values`` replace its question marks."""
        cursor = self.database.execute_sql(_of(statement, self._param), values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def run(self, statement: str, *values: object) -> int:
        """Execute a statement; returns the number of changed rows."""
        return int(self.database.execute_sql(_of(statement, self._param), values).rowcount)

    def begin(self, how: str) -> None:
        """Begin a transaction with this statement: ``BEGIN IMMEDIATE`` or the like."""
        self.run(how)

    def commit(self) -> None:
        """Commit the transaction: its writes are durable when this returns."""
        self.run("COMMIT")

    def undo(self) -> bool:
        """Roll the transaction back; returns whether the connection can still be used."""
        try:
            self.run("ROLLBACK")
        except peewee.PeeweeException:
            return False
        return True

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        connection = self.database.connection()
        self.database.dispose()
        connection.close()


@cache
def _of(statement: str, param: str) -> str:
    return statement if param == _QUESTION else statement.replace(_QUESTION, param)
