"""A store whose connection is lost retries only what cannot have been stored."""

from collections.abc import Callable, Iterator
from contextlib import closing

import peewee
import pytest

from booking.server.errors import StoreError, StoreGoneError
from booking.server.store import Store, Writing
from tests.booking.server.store.lines import Engine, Lost, Refused

WRITES = 'UPDATE bookings SET reason = "x"'
ATTEMPTS = 5


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def store(engine: Engine) -> Iterator[Store]:
    with closing(Store(engine, store_id="abc", incarnation=1)) as opened:
        yield opened
    assert engine.open == []


def numbered() -> tuple[Callable[[Writing], int], list[int]]:
    """A write that returns how often it has run, and the changes that it has seen."""
    runs: list[int] = []

    def decide(writing: Writing) -> int:
        runs.append(writing.change())
        writing._run(WRITES)
        return len(runs)

    return decide, runs


def statements(engine: Engine) -> list[list[str]]:
    """The statements of each connection."""
    return [line.statements for line in engine.lines]


def test_a_write_begins_with_the_identity_of_the_database_and_ends_with_a_commit(
    store: Store, engine: Engine
) -> None:
    decide, runs = numbered()
    assert store.write(decide) == 1
    assert statements(engine) == [[engine.writes, engine.locks, WRITES, "COMMIT"]]
    assert (runs, engine.checks) == ([0], 1)


def test_the_number_of_changes_is_written_last_before_the_commit(store: Store, engine: Engine) -> None:
    engine.about[:] = [("abc", 1, 41)]
    assert store.write(lambda writing: writing._next_change()) == 42
    *_, finished, commit = statements(engine)[0]
    assert (finished, commit) == ("UPDATE meta SET change = ? WHERE id = 1", "COMMIT")


def test_a_read_begins_with_the_identity_of_the_database_too(store: Store, engine: Engine) -> None:
    engine.about[:] = [("abc", 1, 41)]
    assert store.change() == 41
    assert statements(engine) == [[engine.reads, engine.asks, "COMMIT"]]
    assert engine.checks == 1


@pytest.mark.parametrize(("lost_at", "extra_runs"), [("SELECT about FOR UPDATE", 0), (WRITES, 1)])
@pytest.mark.parametrize("times", [1, ATTEMPTS - 1])
def test_a_write_whose_connection_is_lost_before_its_commit_is_repeated_on_another(
    store: Store, engine: Engine, lost_at: str, extra_runs: int, times: int
) -> None:
    """The function may run again: it affects nothing but its argument."""
    engine.trouble += [(lost_at, Lost())] * times
    decide, runs = numbered()
    assert store.write(decide) == len(runs) == 1 + times * extra_runs
    assert engine.open == [times]
    assert [lines.count("COMMIT") for lines in statements(engine)] == [0] * times + [1]


def test_a_write_whose_idle_connection_is_gone_takes_another(store: Store, engine: Engine) -> None:
    store.write(lambda _: None)
    engine.lines[0].trouble[engine.writes] = Lost()
    decide, runs = numbered()
    assert store.write(decide) == len(runs) == 1
    assert engine.open == [1]


def test_a_transaction_aborted_by_a_deadlock_is_repeated_on_its_connection(
    store: Store, engine: Engine
) -> None:
    """PostgreSQL aborts one of two that wait for each other; the connection stays usable."""

    class Sacrificed(Engine):
        def is_lost(self, error: peewee.PeeweeException) -> bool:
            return isinstance(error, Refused)

    shelf = Sacrificed(trouble=[(WRITES, Refused("deadlock detected"))])
    decide, runs = numbered()
    with closing(Store(shelf, store_id="abc", incarnation=1)) as deadlocked:
        assert deadlocked.write(decide) == len(runs) == 2
    assert len(shelf.lines) == 1
    assert (store.change(), len(engine.lines)) == (0, 1)


def test_after_five_tries_a_write_is_given_up_with_a_message(store: Store, engine: Engine) -> None:
    engine.trouble += [(WRITES, Lost("the server goes down"))] * 9
    decide, runs = numbered()
    with pytest.raises(StoreError) as error:
        store.write(decide)
    assert str(error.value) == "The booking database the shelf cannot be used: the server goes down."
    assert (len(runs), len(engine.lines)) == (ATTEMPTS, ATTEMPTS)


def test_a_commit_whose_answer_is_lost_is_not_repeated(store: Store, engine: Engine) -> None:
    """It may have been stored: the next read shows whether."""
    engine.trouble.append(("COMMIT", Lost("no answer")))
    decide, runs = numbered()
    with pytest.raises(StoreError, match="the shelf cannot be used: no answer"):
        store.write(decide)
    assert len(runs) == 1
    assert store.write(decide) == 2


@pytest.mark.parametrize("refused_at", [WRITES, "SELECT about FOR UPDATE"])
def test_a_statement_that_the_database_refuses_is_not_repeated(
    store: Store, engine: Engine, refused_at: str
) -> None:
    engine.trouble.append((refused_at, Refused("disk full")))
    decide, runs = numbered()
    with pytest.raises(StoreError, match="the shelf cannot be used: disk full"):
        store.write(decide)
    assert len(runs) == (refused_at == WRITES)
    assert statements(engine)[0][-1] == "ROLLBACK"
    assert store.write(decide) == len(runs)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (peewee.IntegrityError("UNIQUE constraint failed"), "UNIQUE constraint failed"),
        (peewee.ProgrammingError("no such column"), "no such column"),
    ],
)
def test_a_wrong_statement_gives_a_message_and_is_rolled_back(
    store: Store, engine: Engine, error: peewee.PeeweeException, shown: str
) -> None:
    engine.trouble.append((WRITES, error))
    decide, runs = numbered()
    with pytest.raises(StoreError) as raised:
        store.write(decide)
    assert str(raised.value) == f"The booking database the shelf cannot be used: {shown}."
    assert (len(runs), statements(engine)[0][-1]) == (1, "ROLLBACK")


@pytest.mark.parametrize("lost_at", ["BEGIN", "SELECT about", "COMMIT"])
def test_a_read_whose_connection_is_lost_gives_a_message(store: Store, engine: Engine, lost_at: str) -> None:
    engine.trouble.append((lost_at, Lost("no answer")))
    with pytest.raises(StoreError, match="the shelf cannot be used: no answer"):
        store.change()
    assert store.change() == 0


@pytest.mark.parametrize(
    "about", [("other", 1, 0), ("abc", 2, 0), ("other", 2, 0)], ids=["store id", "incarnation", "both"]
)
def test_l9_another_database_in_its_place_is_neither_read_nor_written(
    store: Store, engine: Engine, about: tuple[object, ...]
) -> None:
    engine.about[:] = [about]
    decide, runs = numbered()
    for ask in (lambda: store.write(decide), store.change, store.check):
        with pytest.raises(StoreGoneError) as error:
            ask()
        assert str(error.value) == (
            "The booking database the shelf was overwritten while the booking server had it open: see that "
            "the right one is there and start the booking server again."
        )
    assert runs == []
    assert all("COMMIT" not in lines for lines in statements(engine))


def test_l9_a_database_without_an_identity_is_damaged(store: Store, engine: Engine) -> None:
    engine.about.clear()
    for ask in (lambda: store.write(lambda _: None), store.change):
        with pytest.raises(StoreError, match="the shelf has no identity: it is damaged, restore it"):
            ask()


def test_an_error_of_ours_reaches_the_caller_unchanged_and_rolls_the_write_back(
    store: Store, engine: Engine
) -> None:
    def fails(writing: Writing) -> None:
        writing._run(WRITES)
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours"):
        store.write(fails)
    assert statements(engine) == [[engine.writes, engine.locks, WRITES, "ROLLBACK"]]


def test_a_write_inside_another_is_refused_and_the_outer_one_continues(store: Store) -> None:
    def outer(_writing: Writing) -> str:
        with pytest.raises(RuntimeError, match="inside another one"):
            store.write(lambda _: None)
        return "stored"

    assert store.write(outer) == "stored"
