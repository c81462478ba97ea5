"""Writes that wait together are stored together; each gets its own answer, and only after the commit."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from booking.server.store import Store, StoreError, Writing
from booking.server.store.group_commit import MOST, GroupCommit, PendingWrite
from tests.fakes.records import a_record, day

PATIENCE = 60


class Disk:
    """Runs requests; the first turn waits until the test releases it."""

    def __init__(self) -> None:
        self.turns: list[int] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def store_all(self, turn: Sequence[PendingWrite]) -> None:
        self.turns.append(len(turn))
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        for write in turn:
            try:
                write.succeed(write.decide(None))
            except ZeroDivisionError as error:
                write.fail(error)


def together(turns: GroupCommit, disk: Disk, decisions: Sequence[Callable[[Any], Any]]) -> list[Future[Any]]:
    """The first alone, and all others while it is being stored."""
    with ThreadPoolExecutor(len(decisions)) as pool:
        futures = [pool.submit(turns.submit, decisions[0])]
        assert disk.begun.wait(PATIENCE)
        futures += [pool.submit(turns.submit, each) for each in decisions[1:]]
        while len(turns._waiting) < len(decisions) - 1:
            threading.Event().wait(0.001)
        disk.go_on.set()
    return futures


def test_waiting_writes_are_stored_in_one_turn_and_get_their_own_answers() -> None:
    disk = Disk()
    turns = GroupCommit(disk.store_all)
    answers = together(turns, disk, [lambda _w, n=n: n for n in range(9)])
    assert [each.result() for each in answers] == list(range(9))
    assert disk.turns == [1, 8]


def test_one_write_that_fails_does_not_fail_the_others() -> None:
    disk = Disk()
    turns = GroupCommit(disk.store_all)
    answers = together(turns, disk, [lambda _w, n=n: 6 // n for n in (3, 0, 2)])
    assert (answers[0].result(), answers[2].result()) == (2, 3)
    with pytest.raises(ZeroDivisionError):
        answers[1].result()


def test_a_turn_has_at_most_the_allowed_number_of_writes() -> None:
    disk = Disk()
    turns = GroupCommit(disk.store_all)
    together(turns, disk, [lambda _w: None] * (MOST + 3))
    assert disk.turns == [1, MOST, 2]


def test_a_write_that_fails_after_writing_does_not_fail_the_others(store: Store) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def slow(_writing: Writing) -> None:
        waiting.set()
        assert go_on.wait(PATIENCE)

    def fails(writing: Writing) -> None:
        writing.add(a_record(id="b-undone"))
        raise ZeroDivisionError

    def impossible(writing: Writing) -> None:
        writing.add(a_record(id="b-impossible", count=0))

    good = [lambda writing, n=n: writing.add(a_record(id=f"b-{n}")) for n in range(4)]
    with ThreadPoolExecutor(9) as pool:
        pool.submit(store.write, slow)
        assert waiting.wait(PATIENCE)
        answers = [pool.submit(store.write, each) for each in (*good[:2], fails, impossible, *good[2:])]
        while len(store._turns._waiting) < len(answers):
            threading.Event().wait(0.001)
        go_on.set()
    with pytest.raises(ZeroDivisionError):
        answers[2].result()
    with pytest.raises(StoreError):
        answers[3].result()
    assert sorted(answers[place].result().change for place in (0, 1, 4, 5)) == [1, 2, 3, 4]
    assert {record.id for record in store.records_ending_after(day(0))} == {f"b-{n}" for n in range(4)}
    assert store.change() == 4
