"""L5: sixteen writers at once, on both databases: nothing promised twice, nothing lost, no wrong refusal."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from booking.store import Store, open_store
from tests.booking.store.crowd import Dice, crowd, overbooked, wrong
from tests.fakes.records import day


@pytest.mark.parametrize("seed", [0])
def test_l5_a_crowd_gets_exactly_what_there_is(store: Store, seed: int) -> None:
    told = crowd(store, seed, each=200)
    assert list(wrong(store, told)) == []
    assert min(told.times(verb) for verb in ("create", "change", "cancel", "release")) > 20
    assert len(told.refused) > 1000


def killed(url: str, seed: int, answers: int) -> list[tuple[str, bool]]:
    """(id, whether cancelled) of what a process has told before it was killed in the middle of its work."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.booking.store.crowd", url, str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    )
    assert writer.stdout
    with writer:
        told = [writer.stdout.readline() for _ in range(answers)]
        os.kill(writer.pid, signal.SIGKILL)
        lines = [line.split() for line in (*told, *writer.stdout) if line.endswith("\n")]
    return [(name, is_cancelled == "1") for name, is_cancelled in lines]


@pytest.mark.parametrize("seed", [0])
def test_l9_what_was_answered_is_there_whenever_the_process_is_killed(url: str, seed: int) -> None:
    dice, told = Dice(seed), dict[str, bool]()
    open_store(url).close()
    for life in range(3):
        told.update(killed(url, 10 * seed + life, 1 + dice.below(60)))
        with closing(open_store(url)) as store, store.reading() as reading:
            live = {record.id: record for record in reading.ending_after(day(-1))}
            assert reading.known(told) == set(told)
            assert not {name for name, is_cancelled in told.items() if is_cancelled} & set(live)
            assert overbooked(live.values()) == []
            changes = [record.change for record in reading.changed_after(0)]
            assert reading.change() >= max(changes)
            audited = {entry.subject for entry in reading.audit_page(after=None, limit=10_000)}
            assert audited == {record.id for record in reading.changed_after(0)}
