"""A copy and back again, row for row; a copy that cannot be restored completely changes nothing."""

import gzip
import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from booking.server.records import Place, Record
from booking.server.store import Store, StoreError, Writing, open_store
from booking.server.store.__main__ import main
from booking.server.store.backup import back_up, restore
from booking.server.store.dump_file import Head, Row, read, write
from booking.server.store.models import VERSION
from booking.server.store.opening import engine_of
from booking.server.store_records import (
    ANSWERED,
    AuditEntry,
    Block,
    Denied,
    Exemption,
    Guard,
    Replay,
    Session,
)
from tests.fakes.dice import Dice
from tests.fakes.objects import A100, A6000
from tests.fakes.records import a_record, day

TEXTS = ("", "β☃", "'; DROP TABLE bookings; --", "%s ?", "line\nbreak", "x" * 5000)


class Drawn:
    """Rows in which every column that can be empty is so sometimes."""

    def __init__(self, seed: int) -> None:
        self._dice = Dice(seed)

    def below(self, most: int) -> int:
        """A number."""
        return self._dice.below(most)

    def text(self) -> str:
        """Any text, also none."""
        return TEXTS[self.below(len(TEXTS))]

    def maybe(self, value: object) -> object:
        """The value, or nothing."""
        return value if self.below(2) else None

    def booking(self, number: int) -> Record:
        """One within fifty days."""
        start = day(self.below(50))
        return a_record(
            start,
            start + timedelta(hours=1 + self.below(99)),
            id=f"b-{number}",
            user=f"u{self.below(9)}{self.text()}",
            model=(A100, A6000)[self.below(2)],
            count=1 + self.below(8),
            topology=("any", "single-node")[self.below(2)],
            namespace=self.maybe("lab"),
            released=self.maybe(day(self.below(99))),
            cancelled=self.maybe(day(self.below(99))),
            plan=tuple(Place(f"n{node}", 1 + node) for node in range(self.below(3))),
            created_by=self.text(),
            policy=self.text(),
            ended_by=self.maybe(self.text()),
            reason=self.maybe(self.text()),
            waived=bool(self.below(2)),
        )

    def entry(self, number: int) -> AuditEntry:
        """One of the audit."""
        return msgspec.structs.replace(
            AuditEntry(at=day(number), actor=self.text(), action="booking.create", subject=self.text()),
            reason=self.maybe(self.text()),
            before=self.maybe({"a": [1, None, self.text()]}),
            after=self.maybe({}),
        )

    def others(self, writing: Writing, number: int) -> None:
        """A row of each other table."""
        span = {"start": day(number), "end": day(number + 1)}
        by = {"reason": self.text() or "r", "created_by": self.text(), "created": day(self.below(9)), **span}
        block = Block(id=f"k-{number}", node=self.text(), **by)
        writing.block_add(msgspec.structs.replace(block, model=self.maybe(A100), count=self.maybe(2)))
        limits = {self.text(): number}
        writing.exemption_add(Exemption(id=f"e-{number}", user=self.text(), limits=limits, **by))
        refused = {"count": 2**31 - 1, "rules": (self.text(),), **span}
        writing.denied_add(Denied(at=day(number), user=self.text(), model=self.text(), **refused))
        body, headers = bytes(self.below(256) for _ in range(self.below(300))), {self.text(): self.text()}
        reply = Replay(digest=self.text(), status=ANSWERED, body=body, headers=headers, at=day(0))
        writing.remember(self.text(), f"k-{number}", reply)
        writing.email_set(f"u{number}", self.text(), day(number))
        writing.session_add(
            Session(id=f"s-{number}", user=self.text(), name=self.text(), created=day(0), expires=day(9))
        )


def filled(store: Store, seed: int) -> None:
    """Some rows of every table, and more bookings and entries than are restored at once."""
    drawn, guard = Drawn(seed), Guard(since=day(0), devices=10_000, live=None)

    def fill(writing: Writing) -> None:
        for number in range(130):
            writing.add(drawn.booking(number), guard=guard if drawn.below(2) else None)
            writing.audit(drawn.entry(number))
        for number in range(5):
            drawn.others(writing, number)

    store.write(fill)


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path / "bookings.db")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def copied(url: str) -> bytes:
    """The whole content of a copy."""
    out = io.BytesIO()
    back_up(url, out)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_of_a_restored_database_is_the_same_copy(
    url: str, copy: Path, tmp_path: Path, seed: int
) -> None:
    with closing(open_store(url)) as store:
        filled(store, seed)
    head, rows = back_up(url, copy)
    assert rows == 2 * 130 + 5 * 5
    there = url_of(tmp_path / "there.db")
    assert restore(copy, there) == (head, rows)
    assert copied(there) == copied(url) == copy.read_bytes()


def test_an_empty_database_is_copied_with_its_id_and_change_number(
    url: str, copy: Path, tmp_path: Path
) -> None:
    with closing(open_store(url)) as store:
        store_id = store.store_id
    assert back_up(url, copy) == (Head(schema=VERSION, store_id=store_id, change=0), 0)
    restore(copy, url_of(tmp_path / "there.db"))
    with closing(open_store(url_of(tmp_path / "there.db"))) as store:
        assert (store.store_id, store.change()) == (store_id, 0)


def test_a_copy_has_no_sessions_and_no_data_that_only_writes_need(url: str, copy: Path) -> None:
    with closing(open_store(url)) as store:
        filled(store, 1)
    back_up(url, copy)
    _, rows = read(copy)
    kept = list(rows)
    assert {row.table for row in kept} == {
        "bookings",
        "blocks",
        "exemptions",
        "audit",
        "denied",
        "replays",
        "people",
    }
    (columns,) = {frozenset(row.values) for row in kept if row.table == "bookings"}
    assert "live_slot" in columns
    assert columns.isdisjoint({"ceiling", "judged"})


def test_rows_of_a_copy_are_sorted_by_their_keys(url: str, copy: Path) -> None:
    with closing(open_store(url)) as store:
        for name in ("b-2", "b-3", "b-1"):
            store.write(lambda writing, name=name: writing.add(a_record(id=name)))
            store.write(lambda writing, name=name: writing.email_set(name, "a", day(0)))
            store.write(
                lambda writing, name=name: writing.remember(
                    "alice", name, Replay(digest="", status=ANSWERED, body=b"", headers={}, at=day(0))
                )
            )
    back_up(url, copy)
    _, rows = read(copy)
    found = [
        (row.table, row.values.get("id") or row.values.get("user") or row.values["key_text"]) for row in rows
    ]
    assert found == [
        (table, name) for table in ("bookings", "replays", "people") for name in ("b-1", "b-2", "b-3")
    ]


@pytest.mark.parametrize("rows", [1, 99, 100, 101, 200, 201])
def test_rows_are_restored_a_hundred_at_a_time_and_none_is_left_out(
    url: str, copy: Path, tmp_path: Path, rows: int
) -> None:
    with closing(open_store(url)) as store:
        store.write(lambda writing: [writing.add(a_record(id=f"b-{number}")) for number in range(rows)])
    back_up(url, copy)
    there = url_of(tmp_path / "there.db")
    assert restore(copy, there)[1] == rows
    assert copied(there) == copy.read_bytes()


def test_a_restored_user_keeps_the_places_that_count_for_the_next_booking(
    url: str, copy: Path, tmp_path: Path
) -> None:
    guard, there = Guard(since=day(0), live=2), url_of(tmp_path / "there.db")
    with closing(open_store(url)) as store:
        store.write(lambda writing: writing.add(a_record(), guard=guard))
    back_up(url, copy)
    restore(copy, there)
    with closing(open_store(there)) as store:
        store.write(lambda writing: writing.add(a_record(day(5), id="b-two"), guard=guard))
        with pytest.raises(StoreError, match="more than 2"):
            store.write(lambda writing: writing.add(a_record(day(9), id="b-three"), guard=guard))


def test_a_restored_audit_can_still_not_be_changed(url: str, copy: Path, tmp_path: Path) -> None:
    with closing(open_store(url)) as store:
        filled(store, 1)
    back_up(url, copy)
    there = tmp_path / "there.db"
    restore(copy, url_of(there))
    with closing(sqlite3.connect(there)) as connection:
        for statement in ("DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"):
            with pytest.raises(sqlite3.IntegrityError, match="the audit is never changed"):
                connection.execute(statement)


# --- copies that cannot be restored ------------------------------------------------------------------

ROW = Row("people", {"user": "alice", "email": "a@example.org", "at": 0})
Wrong = tuple[Head, list[Row], str]
HEAD = Head(schema=VERSION, store_id="abc", change=7)
WRONG: dict[str, Wrong] = {
    "a newer schema": (
        msgspec.structs.replace(HEAD, schema=99),
        [ROW],
        f"{{copy}} has schema 99, and schema {VERSION} is known here.",
    ),
    "a table that there is not": (
        HEAD,
        [ROW, Row("songs", {"title": "x"})],
        "The backup has a table songs of which nothing is known here.",
    ),
    "a table that no copy has": (
        HEAD,
        [ROW, Row("sessions", {"id": "s"})],
        "The backup has a table sessions of which nothing is known here.",
    ),
    "a column that there is not": (
        HEAD,
        [ROW, Row("people", {"user": "bob", "email": "b", "at": 0, "phone": "1"})],
        f"The backup's table people has other columns than schema {VERSION} has: phone.",
    ),
    "a row twice": (
        HEAD,
        [ROW, ROW],
        "The booking database {database} cannot be used: UNIQUE constraint failed: people.user.",
    ),
    "other columns": (
        HEAD,
        [Row("people", {"user": "bob", "name": "b", "email": "b"})],
        f"The backup's table people has other columns than schema {VERSION} has: at, name.",
    ),
    "a column that is missing": (
        HEAD,
        [ROW, Row("people", {"user": "bob", "at": 0})],
        f"The backup's table people has other columns than schema {VERSION} has: email.",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("overwrite", [False, True], ids=["onto nothing", "onto a database"])
def test_a_copy_that_cannot_be_restored_changes_nothing(
    tmp_path: Path, copy: Path, wrong: str, *, overwrite: bool
) -> None:
    head, rows, message = WRONG[wrong]
    write(copy, head, rows)
    path = tmp_path / "there.db"
    before = b""
    if overwrite:
        with closing(open_store(url_of(path))) as store:
            filled(store, 2)
        before = copied(url_of(path))
    with pytest.raises(StoreError) as error:
        restore(copy, url_of(path), overwrite=overwrite)
    assert str(error.value) == message.format(copy=copy, database=path)
    if overwrite:
        assert copied(url_of(path)) == before
    with closing(open_store(url_of(path))) as store:
        assert store.store_id != "abc"


def test_an_overwritten_database_is_replaced_completely(url: str, copy: Path, tmp_path: Path) -> None:
    with closing(open_store(url)) as store:
        filled(store, 1)
    back_up(url, copy)
    there = url_of(tmp_path / "there.db")
    with closing(open_store(there)) as store:
        filled(store, 2)
        store.write(lambda writing: writing.add(a_record(id="b-more")))
    restore(copy, there, overwrite=True)
    assert copied(there) == copy.read_bytes()


def test_a_database_of_an_older_schema_is_not_copied(url: str, copy: Path) -> None:
    open_store(url).close()
    with closing(engine_of(url)) as engine, closing(engine.connect()) as line:
        line.run("UPDATE meta SET version = 0")
    with pytest.raises(StoreError, match=f"has not schema {VERSION}: start the booking server once"):
        back_up(url, copy)
    assert not copy.exists()


# --- the command, in this process --------------------------------------------------------------------

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(url: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """``python -m booking.server.store``: its exit code and its output."""

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["--database", url, *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_command_reports_what_it_has_copied_and_restored(url: str, copy: Path, command: Command) -> None:
    with closing(open_store(url)) as store:
        store.write(lambda writing: writing.add(a_record()))
        about = f"store {store.store_id}, change 1"
    assert command("backup", copy) == (0, f"Copied 1 row to {copy}: {about}.\n", "")
    assert command("restore", copy, "--overwrite") == (0, f"Restored 1 row from {copy}: {about}.\n", "")


def test_the_command_migrates_a_database_to_a_schema_and_reports_it(url: str, command: Command) -> None:
    open_store(url).close()
    assert command("schema", 1) == (0, "The database has schema 1 now.\n", "")
    assert command("schema", 4) == (1, "", "There is no schema 4; there are 1.\n")


def test_the_command_reports_in_one_line_why_it_has_done_nothing(
    url: str, copy: Path, command: Command
) -> None:
    open_store(url).close()
    copy.write_bytes(gzip.compress(b"{}\n"))
    code, out, err = command("restore", copy)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"{copy} is not a backup of ours, or a damaged one")
    assert command("backup", copy) == (1, "", f"{copy} is there already: name a file that is not.\n")
