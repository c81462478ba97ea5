"""Backup and restore by the command, as administrators use it; in both directions between both databases."""

import os
import pty
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import Mirror
from booking.server.records import Place
from booking.server.store import Store, StoreError, StoreGoneError, open_store
from booking.server.store.backup import back_up, restore
from booking.server.store_records import AuditEntry, Block, Denied, Exemption, Guard, Replay, Session
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import BOOKINGS
from tests.databases import KINDS, NEEDS_A_SERVER, a_database
from tests.fakes.records import a_record, day


def command(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as administrators do."""
    return subprocess.run(
        [sys.executable, "-m", "booking.server.store", "--database", url, *words],
        capture_output=True,
        text=True,
        check=False,
    )


def filled(store: Store) -> None:
    guard = Guard(since=day(0), devices=4, live=2)
    since = {"created": day(0), "created_by": "bob"}
    store.write(lambda w: w.add(a_record(plan=(Place("n0", 1),), reason="β\n"), guard=guard))
    store.write(lambda w: w.add(a_record(day(3), id="b-two", cancelled=day(1), user="bob"), guard=guard))
    store.write(
        lambda w: w.audit(AuditEntry(at=day(0), actor="a", action="x.y", subject="b", before={"a": 1}))
    )
    store.write(
        lambda w: w.denied_add(
            Denied(at=day(0), user="u", model="m", count=1, start=None, end=None, rules=())
        )
    )
    store.write(
        lambda w: w.remember("a", "k", Replay(digest="d", status=1, body=b"\0\xff", headers={}, at=day(0)))
    )
    store.write(lambda w: w.email_set("alice", "a@example.org", day(0)))
    store.write(lambda w: w.block_add(Block(id="k", node="n", start=day(0), end=day(1), reason="r", **since)))
    store.write(
        lambda w: w.exemption_add(
            Exemption(
                id="e", user="u", limits={"longest": "P9D"}, start=day(0), end=day(1), reason="r", **since
            )
        )
    )
    store.write(lambda w: w.session_add(Session(id="s", user="u", name="u", created=day(0), expires=day(9))))


def everything(store: Store) -> list[Any]:
    with store.reading() as reading:
        return [
            store.store_id,
            reading.change(),
            reading.changed_after(0),
            reading.audit_page(after=None, limit=99),
            reading.denied_page(after=None, limit=99),
            reading.replayed("a", "k"),
            reading.users_with_email("a@example.org"),
            reading.blocks(),
            reading.exemptions(None, None),
        ]


@NEEDS_A_SERVER
@pytest.mark.parametrize(("kind", "onto"), [KINDS, KINDS[::-1]])
def test_a_restored_database_equals_the_copied_one(kind: str, onto: str, tmp_path: Path) -> None:
    url, copy = a_database(kind, tmp_path / "from"), tmp_path / "copy"
    with closing(open_store(url)) as store:
        filled(store)
        before = everything(store)
        done = command(url, "backup", str(copy))  # while it is open
        assert (done.returncode, done.stderr) == (0, "")
        assert f"store {store.store_id}, change {store.change()}" in done.stdout
        store.write(lambda writing: writing.add(a_record(id="b-later")))
    there = a_database(onto, tmp_path / "to")
    done = command(there, "restore", str(copy))
    assert (done.returncode, done.stderr) == (0, "")
    with closing(open_store(there)) as store:
        assert everything(store) == before
        assert store.read(lambda reading: reading.session("s", day(0))) is None
        written = store.write(lambda writing: writing.add(a_record(id="b-three")))
        assert written.change == before[1] + 1
        entry = AuditEntry(at=day(1), actor="a", action="x.y", subject="b")
        store.write(lambda writing: writing.audit(entry))
        numbers = [each.number for each in store.read(lambda r: r.audit_page(after=None, limit=9))]
        assert numbers == [2, 1]


def mirror_of(store: Store, kube: FakeKube, clock: FakeClock) -> Mirror:
    lease = MirrorLease(kube, clock, namespace=names.NAMESPACE, holder="one")
    return Mirror(kube, store, clock, lease=lease, metrics=ServerMetrics(CollectorRegistry()))


def test_l9_the_mirror_accepts_a_restored_database_as_the_same_one(url: str, tmp_path: Path) -> None:
    clock, copy = FakeClock(), tmp_path / "copy"
    kube = FakeKube(clock)
    with closing(open_store(url)) as store:
        store.write(lambda writing: writing.add(a_record()))
        assert mirror_of(store, kube, clock).round()
    back_up(url, copy)
    restore(copy, url, overwrite=True)
    with closing(open_store(url)) as store:
        assert mirror_of(store, kube, clock).round()
    assert [booking.name for booking in kube.list(BOOKINGS).items] == ["b-one"]


def piped(url: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """As in a shell, between two programs."""
    command = [sys.executable, "-m", "booking.server.store", "--database", url, *words]
    return subprocess.run(command, input=given, capture_output=True, check=False)


def test_a_copy_can_be_written_to_a_pipe_and_restored_from_one(url: str, tmp_path: Path) -> None:
    with closing(open_store(url)) as store:
        filled(store)
        before = everything(store)
        done = piped(url, "backup", "-")
    assert done.returncode == 0
    assert b" rows to the standard output: store" in done.stderr
    there = a_database("sqlite", tmp_path / "to")
    torn = piped(there, "restore", "-", given=done.stdout[:-20])
    assert torn.returncode == 1
    assert torn.stderr.startswith(b"The standard input is not a backup of ours, or a damaged one")
    back = piped(there, "restore", "-", given=done.stdout)
    assert (back.returncode, back.stderr) == (0, b"")
    assert re.search(rb"^Restored \d+ rows? from the standard input: store", back.stdout, re.MULTILINE)
    with closing(open_store(there)) as store:
        assert everything(store) == before


def test_a_copy_is_not_written_to_a_terminal(url: str) -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "booking.server.store", "--database", url, "backup", "-"]
    done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, check=False)
    os.close(terminal)
    os.close(ours)
    assert done.returncode == 1
    assert done.stderr.startswith(b"A copy is not text: no terminal can show it.")


def test_a_database_that_is_not_empty_is_not_overwritten_by_accident(url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with closing(open_store(url)) as store:
        filled(store)
        before = everything(store)
    back_up(url, copy)
    with pytest.raises(StoreError, match="is not empty"):
        restore(copy, url)
    with closing(open_store(url)) as store:
        assert everything(store) == before


def test_l9_a_server_with_an_overwritten_database_neither_reads_nor_writes_it(
    url: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    with closing(open_store(url)) as store:
        assert command(url, "backup", str(copy)).returncode == 0
        store.write(lambda writing: writing.add(a_record()))
        assert command(url, "restore", "--overwrite", str(copy)).returncode == 0
        for ask in (
            store.check,
            store.change,
            lambda: store.records_ending_after(day(0)),
            lambda: store.write(lambda writing: writing.add(a_record(id="b-two"))),
        ):
            with pytest.raises(StoreGoneError, match="was overwritten"):
                ask()
    with closing(open_store(url)) as store:
        assert (store.change(), store.records_ending_after(day(0))) == (0, [])


def test_copying_a_missing_database_does_not_create_it(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    done = command(f"sqlite:///{path}", "backup", str(tmp_path / "copy"))
    assert done.stderr == f"There is no booking database {path}.\n"
    assert not path.exists()
