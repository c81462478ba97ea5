"""Connections of a fake database: their statements are recorded, and tests put errors into them."""

from dataclasses import dataclass, field

import peewee

from booking.server.store.connection import Connection


class Lost(peewee.OperationalError):
    """The connection is lost."""


class Refused(peewee.OperationalError):
    """The database refuses the statement."""


@dataclass(frozen=True)
class Cursor:
    """The cursor of a statement that has changed nothing."""

    rows: list[tuple[object, ...]]
    rowcount = 0

    def fetchall(self) -> list[tuple[object, ...]]:
        """The rows that it has found."""
        return self.rows


@dataclass(eq=False)
class Line:
    """One connection as peewee sees it; errors that are put into ``trouble`` are raised once."""

    number: int
    param: str = "?"
    statements: list[str] = field(default_factory=list)
    trouble: dict[str, Exception] = field(default_factory=dict)
    answers: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    gone: Lost | None = None
    """The error by which each further statement fails."""
    is_open: bool = True

    def execute_sql(self, statement: str, values: object) -> Cursor:
        """Record a statement, and answer or fail as the test has set."""
        del values
        assert self.is_open, "a closed connection was used"
        self.statements.append(statement)
        trouble = self.trouble.pop(statement, None)
        if isinstance(trouble, Lost):
            self.gone = trouble
        trouble = self.gone or trouble
        if trouble:
            raise trouble
        return Cursor(self.answers.get(statement, []))

    def connection(self) -> "Line":
        """The driver's own connection."""
        return self

    def dispose(self) -> None:
        """Drop the state of the connection."""

    def close(self) -> None:
        """Close it."""
        self.is_open = False


@dataclass(eq=False)
class Engine:
    """A database whose connections are counted."""

    lines: list[Line] = field(default_factory=list)
    refusal: peewee.PeeweeException | None = None
    about: list[tuple[object, ...]] = field(default_factory=lambda: [("abc", 1, 0)])
    """The identity of the database: store id, incarnation and number of the newest change."""
    trouble: list[tuple[str, Exception]] = field(default_factory=list)
    """Statement and error, one for each new connection, the first of them first."""
    checks: int = 0
    name = "the shelf"
    reads = "BEGIN"
    writes = "BEGIN TO WRITE"
    asks = "SELECT about"
    locks = "SELECT about FOR UPDATE"

    def expect_writers(self) -> None:
        """Nothing is to be prepared."""

    def check(self) -> None:
        """Count a check of the database's identity, which succeeds."""
        self.checks += 1

    def connect(self) -> Connection:
        """Another connection, unless connections are refused."""
        if self.refusal:
            raise self.refusal
        trouble = dict([self.trouble.pop(0)]) if self.trouble else {}
        answers = {self.asks: self.about, self.locks: self.about}
        self.lines.append(Line(len(self.lines), trouble=trouble, answers=answers))
        return Connection(self.lines[-1])

    def committed(self) -> None:
        """Nothing follows a commit."""

    def is_lost(self, error: peewee.PeeweeException) -> bool:
        """Whether the error means a lost connection."""
        return isinstance(error, Lost)

    def close(self) -> None:
        """Close the engine, which holds nothing."""

    @property
    def open(self) -> list[int]:
        """Numbers of the open connections."""
        return [line.number for line in self.lines if line.is_open]
