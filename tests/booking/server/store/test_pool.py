"""Connections are kept and reused, given back clean, and replaced when they turn out to be gone."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from booking.server.errors import StoreError
from booking.server.store.connection import Connection
from booking.server.store.pool import _KEPT, Pool
from tests.booking.server.store.lines import Engine, Line, Lost, Refused


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def pool(engine: Engine) -> Iterator[Pool]:
    made = Pool(engine)
    yield made
    made.close()
    assert engine.open == []


def use(pool: Pool, how: str = "BEGIN") -> Line:
    """A transaction from its beginning to its end."""
    with pool.begun(how) as line:
        line.commit()
        used: Line = line.database
    return used


def idle(pool: Pool, count: int) -> None:
    """Have so many idle connections."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(pool.begun("BEGIN"))


def test_consecutive_transactions_use_the_same_connection(pool: Pool, engine: Engine) -> None:
    assert {use(pool).number for _ in range(5)} == {0}
    assert engine.lines[0].statements == ["BEGIN", "COMMIT"] * 5


def test_a_transaction_begins_with_the_given_statement(pool: Pool) -> None:
    assert use(pool, "BEGIN IMMEDIATE").statements == ["BEGIN IMMEDIATE", "COMMIT"]


def test_simultaneous_transactions_have_their_own_connections(pool: Pool, engine: Engine) -> None:
    idle(pool, 3)
    assert engine.open == [0, 1, 2]


@pytest.mark.parametrize(("together", "kept"), [(_KEPT - 1, _KEPT - 1), (_KEPT, _KEPT), (_KEPT + 3, _KEPT)])
def test_at_most_sixteen_idle_connections_are_kept(
    pool: Pool, engine: Engine, together: int, kept: int
) -> None:
    idle(pool, together)
    assert (len(engine.lines), len(engine.open)) == (together, kept)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, Refused])
def test_a_failed_transaction_is_rolled_back_and_its_connection_reused(
    pool: Pool, engine: Engine, error: type[BaseException]
) -> None:
    with pytest.raises(error), pool.begun("BEGIN"):
        raise error
    assert engine.lines[0].statements == ["BEGIN", "ROLLBACK"]
    assert use(pool).number == 0


def test_a_connection_that_cannot_roll_back_is_closed_and_not_reused(pool: Pool, engine: Engine) -> None:
    assert use(pool).number == 0
    engine.lines[0].trouble["ROLLBACK"] = Lost()
    with pytest.raises(ZeroDivisionError), pool.begun("BEGIN"):
        raise ZeroDivisionError
    assert engine.open == []
    assert use(pool).number == 1


def test_an_idle_connection_that_is_gone_is_replaced_and_all_idle_ones_are_closed(
    pool: Pool, engine: Engine
) -> None:
    idle(pool, 3)
    for line in engine.lines:
        line.trouble["BEGIN"] = Lost()
    assert use(pool).number == 3
    assert engine.open == [3]
    assert sum(line.statements.count("BEGIN") for line in engine.lines[:3]) == 4, (
        "each lost connection was waited for"
    )


def test_connections_in_use_are_not_closed_with_the_idle_ones(pool: Pool, engine: Engine) -> None:
    idle(pool, 2)
    with pool.begun("BEGIN") as used:
        for line in engine.lines:
            if line is not used.database:
                line.trouble["BEGIN"] = Lost()
        assert use(pool).number == 2
        assert used.database.is_open


def test_a_new_connection_that_is_lost_at_once_is_not_retried(pool: Pool, engine: Engine) -> None:
    class Failing(Engine):
        def connect(self) -> Connection:
            assert len(self.lines) < 3, "it is tried repeatedly"
            made = super().connect()
            made.database.trouble["BEGIN"] = Lost("gone")
            return made

    failing = Failing()
    with pytest.raises(Lost, match="gone"), Pool(failing).begun("BEGIN"):
        raise AssertionError("it has begun")
    assert (len(failing.lines), failing.open) == (1, [])
    assert use(pool).number == 0
    assert engine.open == [0]


@pytest.mark.parametrize("kept", [0, 1], ids=["a new one", "an idle one"])
def test_a_refused_transaction_keeps_its_connection(pool: Pool, engine: Engine, kept: int) -> None:
    """SQLite's file is locked by another process: the connection stays usable."""

    class Busy(Engine):
        def connect(self) -> Connection:
            made = super().connect()
            made.database.trouble["BEGIN IMMEDIATE"] = Refused("database is locked")
            return made

    busy = Busy()
    tried = Pool(busy)
    idle(tried, kept)
    with pytest.raises(Refused, match="locked"), tried.begun("BEGIN IMMEDIATE"):
        raise AssertionError("it has begun")
    assert busy.open == [0]
    assert use(tried, "BEGIN IMMEDIATE").number == 0
    tried.close()
    assert use(pool) is engine.lines[0]


def test_a_database_that_cannot_be_reached_is_named_in_a_message(pool: Pool, engine: Engine) -> None:
    engine.refusal = Lost("connection refused\nIs the server running?")
    with pytest.raises(StoreError) as error, pool.begun("BEGIN"):
        raise AssertionError("it has begun")
    assert str(error.value) == "The booking database the shelf cannot be used: connection refused."
    engine.refusal = None
    assert use(pool).number == 0


def test_no_connection_is_kept_when_all_are_gone_and_no_new_one_is_available(
    pool: Pool, engine: Engine
) -> None:
    idle(pool, 2)
    for line in engine.lines:
        line.trouble["BEGIN"] = Lost()
    engine.refusal = Lost("connection refused")
    with pytest.raises(StoreError, match="connection refused"), pool.begun("BEGIN"):
        raise AssertionError("it has begun")
    assert engine.open == []


def test_a_closed_pool_closes_the_connections_that_are_given_back(pool: Pool, engine: Engine) -> None:
    idle(pool, 2)
    with pool.begun("BEGIN"):
        pool.close()
        assert len(engine.open) == 1
    assert engine.open == []


# --- one connection ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("param", "statement"), [("?", "SELECT ? WHERE a = ?"), ("%s", "SELECT %s WHERE a = %s")]
)
def test_placeholders_are_written_in_the_style_of_the_database(param: str, statement: str) -> None:
    line = Line(0, param=param)
    assert Connection(line).run("SELECT ? WHERE a = ?", 1, 2) == 0
    assert line.statements == [statement]


@pytest.mark.parametrize(
    ("error", "is_good"), [(None, True), (Lost(), False), (Refused(), False)], ids=["done", "lost", "refused"]
)
def test_a_connection_reports_whether_it_could_roll_back(error: Exception | None, *, is_good: bool) -> None:
    line = Line(0, trouble={"ROLLBACK": error} if error else {})
    assert Connection(line).undo() == is_good
