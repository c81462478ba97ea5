"""L5: sixteen writers at once, on both databases: nothing booked twice, nothing lost, no wrong refusal."""

import os
import secrets
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from booking.server.records import Record
from booking.server.store import Store, open_store
from tests.booking.server.store.crowd import (
    MOST_MISSED,
    ON_ONE_NODE,
    SCENARIOS,
    crowd,
    lost,
    overbooked,
    spoilt,
    unfounded,
    wrong,
)
from tests.fakes.dice import Dice
from tests.fakes.records import day

DRAWN = pytest.param(secrets.randbelow(10**6), id="drawn")
"""Another crowd every time."""


@pytest.mark.parametrize("seed", [0, 1, DRAWN])
@pytest.mark.parametrize("name", SCENARIOS)
def test_l5_a_crowd_gets_exactly_the_gpus_that_exist(store: Store, name: str, seed: int) -> None:
    scenario = SCENARIOS[name]
    records = crowd(store, scenario, seed, each=200)
    assert list(wrong(store, scenario, records)) == [], f"seed {seed}"
    verbs = (
        ("create", "change", "cancel", "release") if scenario.begins_today else ("create", "change", "cancel")
    )
    assert min(records.times(verb) for verb in verbs) > 20
    assert len(records.refused) > 1000
    assert len(records.seen) > 5
    if scenario is ON_ONE_NODE:
        assert len(unfounded(scenario, records)) < MOST_MISSED * len(records.refused)


def test_l5_counting_the_sum_alone_would_not_protect_single_node_bookings(store: Store) -> None:
    """Otherwise the crowd shows no more there than where the sum decides."""
    records = crowd(store, ON_ONE_NODE, 0, each=200)
    assert unfounded(replace(ON_ONE_NODE, topology="any"), records)


def killed(url: str, seed: int, name: str, answers: int) -> list[Record]:
    """What a process has recorded before it was killed in the middle of its work."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.booking.server.store.crowd", url, str(seed), name],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path.cwd(),
    )
    assert writer.stdout
    with writer:
        records = [writer.stdout.readline() for _ in range(answers)]
        os.kill(writer.pid, signal.SIGKILL)
        lines = [line for line in (*records, *writer.stdout) if line.endswith("\n")]
    return [msgspec.json.decode(line, type=Record) for line in lines]


@pytest.mark.parametrize("seed", [0, DRAWN])
@pytest.mark.parametrize("name", SCENARIOS)
def test_l9_every_confirmed_booking_is_stored_whenever_the_process_is_killed(
    url: str, name: str, seed: int
) -> None:
    dice, records = Dice(seed), list[Record]()
    open_store(url).close()
    for life in range(3):
        records += killed(url, 10 * seed + life, name, 1 + dice.below(60))
        with closing(open_store(url)) as store, store.reading() as reading:
            stored = {record.id: record for record in reading.changed_after(0)}
            assert list(lost(records, stored)) == []
            live = [record for record in stored.values() if record.cancelled is None]
            # Each life's clock starts again: what was given back some seconds after the start of one life
            # overlaps what was booked at the start of the next.
            assert overbooked(live, SCENARIOS[name], day(0.1)) == []
            assert spoilt(live, SCENARIOS[name], day(0.1)) is None
            assert reading.change() >= max(record.change for record in stored.values())
            audited = {entry.subject for entry in reading.audit_page(after=None, limit=10_000)}
            assert audited == set(stored)
