"""Which answers a transaction caches, how it counts its writes, and which change number it leaves."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from booking.server.store import Store, StoreError, Writing
from booking.server.store.connection import Connection
from booking.server.store.transaction import Transaction, WritingTransaction, can_be_stored
from booking.server.store_records import AuditEntry, Block
from tests.fakes.records import a_record, day


@dataclass
class Database:
    """Answers each query with the next number, and records the statements."""

    param: str = "?"
    executed: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)
    rowcount: int = 1

    def execute_sql(self, statement: str, values: tuple[object, ...]) -> "Database":
        """One statement."""
        self.executed.append((statement, values))
        return self

    def fetchall(self) -> list[tuple[int]]:
        """The number of queries so far."""
        return [(len(self.executed),)]


class Query:
    """One of peewee's, already built."""

    def execute(self, database: Database) -> None:
        """Run it there."""
        database.execute_sql("peewee's", ())


@pytest.fixture
def database() -> Database:
    return Database()


def ask(transaction: Transaction, statement: str = "SELECT a", *values: object) -> int:
    """The number of the answer; the same for a cached answer."""
    (number,) = transaction._once(statement, *values, read=lambda row: int(row[0]))
    return number


def test_a_query_is_sent_once_per_transaction_and_for_each_of_its_values(database: Database) -> None:
    first = Transaction(Connection(database), 0)
    assert [ask(first), ask(first), ask(first, "SELECT b"), ask(first, "SELECT b", 1), ask(first)] == [
        1,
        1,
        2,
        3,
        1,
    ]
    assert ask(Transaction(Connection(database), 0)) == 4


def test_after_a_write_cached_queries_are_sent_again(database: Database) -> None:
    writing = WritingTransaction(Connection(database), 0)
    assert (ask(writing), ask(writing)) == (1, 1)
    writing._do(Query())
    assert (ask(writing), ask(writing)) == (3, 3)


def test_a_reading_transaction_has_never_written(database: Database) -> None:
    assert not Transaction(Connection(database), 0).has_written


def test_each_statement_that_writes_is_counted(database: Database) -> None:
    writing = WritingTransaction(Connection(database), 0)
    assert (writing.writes, writing.has_written) == (0, False)
    assert writing._run("UPDATE x SET a = ?", 5) == 1
    writing._do(Query())
    assert (writing.writes, writing.has_written) == (2, True)
    assert database.executed == [("UPDATE x SET a = ?", (5,)), ("peewee's", ())]


@pytest.mark.parametrize(("changes", "stored"), [(0, []), (1, [8]), (3, [10])])
def test_the_number_of_the_newest_change_is_written_once_at_the_end(
    database: Database, changes: int, stored: list[int]
) -> None:
    writing = WritingTransaction(Connection(database), 7)
    assert [writing._next_change() for _ in range(changes)] == list(range(8, 8 + changes))
    assert writing.change() == 7 + changes
    writing.finish()
    writing.finish()
    assert [values for _, values in database.executed] == [(number,) for number in stored]


@pytest.mark.parametrize(("text", "can"), [("", True), ("β\n", True), ("\0", False), ("a\0b", False)])
def test_any_text_without_a_nul_can_be_stored_anywhere(text: str, *, can: bool) -> None:
    assert can_be_stored(text) == can


# --- what a group of writes sees and leaves ----------------------------------------------------------


def a_block(name: str) -> Block:
    return Block(id=name, node="n0", start=day(1), end=day(3), reason="fan", created_by="bob", created=day(0))


def an_entry() -> AuditEntry:
    return AuditEntry(at=day(0), actor="alice", action="booking.create", subject="b-one")


def everything(writing: Writing) -> None:
    """A booking, a block and an entry."""
    writing.add(a_record())
    writing.block_add(a_block("k-1"))
    writing.audit(an_entry())


def seen(store: Store) -> tuple[int, int, int, int]:
    """How many bookings, blocks and entries there are, and the number of the newest change."""
    with store.reading() as reading:
        return (
            len(reading.changed_after(0)),
            len(reading.blocks()),
            len(reading.audit_page(after=None, limit=9)),
            reading.change(),
        )


def test_all_writes_of_a_transaction_are_stored_together_under_their_own_numbers(store: Store) -> None:
    assert store.write(lambda writing: (everything(writing), writing.change()))[1] == 2
    assert seen(store) == (1, 1, 1, 2)


@pytest.mark.parametrize("error", [ZeroDivisionError, StoreError, KeyError])
def test_a_write_that_fails_at_its_end_stores_nothing(store: Store, error: type[Exception]) -> None:
    def fails(writing: Writing) -> None:
        everything(writing)
        raise error("at the end")

    with pytest.raises(error, match="at the end"):
        store.write(fails)
    assert seen(store) == (0, 0, 0, 0)


STATEMENTS: dict[str, Any] = {
    "a booking": lambda writing: writing.add(a_record()),
    "a block": lambda writing: writing.block_add(a_block("k-1")),
}


@pytest.mark.parametrize("last", STATEMENTS)
def test_a_write_that_the_database_refuses_at_its_end_stores_nothing(store: Store, last: str) -> None:
    def refused(writing: Writing) -> None:
        everything(writing)
        STATEMENTS[last](writing)

    with pytest.raises(StoreError, match=r"(?i)unique"):
        store.write(refused)
    assert seen(store) == (0, 0, 0, 0)


def test_a_turn_without_a_write_leaves_the_change_number(store: Store) -> None:
    store.write(everything)
    assert store.write(lambda writing: len(writing.history("alice"))) == 1
    assert seen(store) == (1, 1, 1, 2)


def test_the_transaction_after_a_rolled_back_one_has_the_next_number(store: Store) -> None:
    def fails(writing: Writing) -> None:
        everything(writing)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(fails)
    assert store.write(lambda writing: writing.add(a_record())).change == 1
