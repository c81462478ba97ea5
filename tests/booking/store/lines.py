"""Connections of a database that is not there: what they are told is listed, what goes wrong is put in."""

from dataclasses import dataclass, field

import peewee

from booking.store.connection import Connection


class Lost(peewee.OperationalError):
    """The other end is gone."""


class Refused(peewee.OperationalError):
    """The other end is there and says no."""


@dataclass(frozen=True)
class Cursor:
    """Of a statement that has changed nothing."""

    rows: list[tuple[object, ...]]
    rowcount = 0

    def fetchall(self) -> list[tuple[object, ...]]:
        """What it has found."""
        return self.rows


@dataclass(eq=False)
class Line:
    """What peewee has of one connection; errors that are put into ``trouble`` are raised once."""

    number: int
    param: str = "?"
    said: list[str] = field(default_factory=list)
    trouble: dict[str, Exception] = field(default_factory=dict)
    answers: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    gone: Lost | None = None
    """From when on each statement fails."""
    is_open: bool = True

    def execute_sql(self, statement: str, values: object) -> Cursor:
        """As a database that is asked nothing else."""
        del values
        assert self.is_open, "a closed connection was used"
        self.said.append(statement)
        trouble = self.trouble.pop(statement, None)
        if isinstance(trouble, Lost):
            self.gone = trouble
        trouble = self.gone or trouble
        if trouble:
            raise trouble
        return Cursor(self.answers.get(statement, []))

    def connection(self) -> "Line":
        """The driver's own."""
        return self

    def dispose(self) -> None:
        """Forget what it knows of its state."""

    def close(self) -> None:
        """End it."""
        self.is_open = False


@dataclass(eq=False)
class Engine:
    """A database whose connections are counted."""

    lines: list[Line] = field(default_factory=list)
    refusal: peewee.PeeweeException | None = None
    about: list[tuple[object, ...]] = field(default_factory=lambda: [("abc", 1, 0)])
    """What the database says of itself: store id, incarnation and number of the newest change."""
    trouble: list[tuple[str, Exception]] = field(default_factory=list)
    """Statement and error, one for each new connection, the first of them first."""
    checks: int = 0
    name = "the shelf"
    reads = "BEGIN"
    writes = "BEGIN TO WRITE"
    asks = "SELECT about"
    locks = "SELECT about FOR UPDATE"

    def check(self) -> None:
        """It is what it was."""
        self.checks += 1

    def connect(self) -> Connection:
        """One more; or none, where that is refused."""
        if self.refusal:
            raise self.refusal
        trouble = dict([self.trouble.pop(0)]) if self.trouble else {}
        answers = {self.asks: self.about, self.locks: self.about}
        self.lines.append(Line(len(self.lines), trouble=trouble, answers=answers))
        return Connection(self.lines[-1])

    def is_lost(self, error: peewee.PeeweeException) -> bool:
        """As the name says."""
        return isinstance(error, Lost)

    def close(self) -> None:
        """Nothing is held."""

    @property
    def open(self) -> list[int]:
        """Numbers of the connections that are not closed."""
        return [line.number for line in self.lines if line.is_open]
