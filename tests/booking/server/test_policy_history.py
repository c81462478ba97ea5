"""Policies that were in force are recorded in the audit log."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booking.policy.reading import read_policy
from booking.server.policy_history import ACTION, ACTOR, SUBJECT, PolicyHistory
from booking.server.store import Store, open_store
from booking.server.store_records import AuditEntry
from cluster.fake.clock import START, FakeClock

FIRST = "# the first\ndefaults: {cooldown: 3d}\n"
SECOND = "defaults: {cooldown: 5d}\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/bookings.db")) as opened:
        yield opened


def entries(store: Store) -> list[AuditEntry]:
    return store.read(lambda reading: reading.audit_page(after=None, limit=10, subject=SUBJECT))


def test_without_a_recorded_policy_there_is_no_last_one(store: Store) -> None:
    assert PolicyHistory(store, FakeClock()).last() is None


def test_each_policy_with_another_meaning_is_recorded_with_its_text(store: Store) -> None:
    clock = FakeClock()
    history = PolicyHistory(store, clock)
    first, second = read_policy(FIRST), read_policy(SECOND)
    history.keep(first, FIRST)
    clock.advance(60)
    history.keep(first, "defaults: {cooldown: P3D}\n")
    history.keep(second, SECOND)
    newest, oldest = entries(store)
    assert (oldest.actor, oldest.action, oldest.at, oldest.before) == (ACTOR, ACTION, START, None)
    assert oldest.after == {"version": first.version, "text": FIRST}
    assert newest.before == {"version": first.version}
    assert newest.after == {"version": second.version, "text": SECOND}
    assert history.last() == SECOND


def test_another_process_finds_the_last_policy(store: Store) -> None:
    PolicyHistory(store, FakeClock()).keep(read_policy(FIRST), FIRST)
    assert PolicyHistory(store, FakeClock()).last() == FIRST
