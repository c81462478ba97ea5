"""What the database keeps besides bookings."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from booking.server.store import Store, StoreError
from booking.server.store_records import AuditEntry, Block, Denied, Exemption, Replay, Session
from tests.fakes.objects import A100
from tests.fakes.records import day


def a_block(**more: Any) -> Block:
    block = Block(
        id="k-1", node="n0", start=day(1), end=day(3), reason="a fan", created_by="bob", created=day(0)
    )
    return msgspec.structs.replace(block, **more)


def an_exemption(**more: Any) -> Exemption:
    exemption = Exemption(
        id="e-1",
        user="alice",
        limits={"longest": "P21D", "max_planned": 2},
        start=day(0),
        end=day(9),
        reason="a thesis",
        created_by="bob",
        created=day(0),
    )
    return msgspec.structs.replace(exemption, **more)


def an_entry(number: int, **more: Any) -> AuditEntry:
    entry = AuditEntry(at=day(number), actor="alice", action="booking.create", subject=f"b-{number}")
    return msgspec.structs.replace(entry, **more)


def a_reply(digest: str = "d", at: float = 0) -> Replay:
    return Replay(digest=digest, status=201, body=b"\0{}\xff", headers={"ETag": '"1"'}, at=day(at))


def a_session(name: str = "s-1", **more: Any) -> Session:
    session = Session(
        id=name,
        user="alice",
        name="alice@example.org",
        groups=("b", "a"),
        csrf="c",
        created=day(0),
        expires=day(1),
        data={"id": [1]},
    )
    return msgspec.structs.replace(session, **more)


def test_blocks_are_found_by_span_and_each_change_is_numbered(store: Store) -> None:
    one, two = a_block(model=A100, count=2), a_block(id="k-2", node="n1", start=day(3), end=day(4))
    store.write(lambda writing: (writing.block_add(two), writing.block_add(one)))
    assert store.change() == 2
    with store.reading() as reading:
        assert reading.blocks() == [one, two]
        assert reading.blocks(start=day(3)) == [two]
        assert reading.blocks(end=day(3)) == [one]
        assert reading.blocks(start=day(2), end=day(9)) == [one, two]
        assert (reading.block("k-1"), reading.block("k-9")) == (one, None)
    assert store.write(lambda writing: writing.block_remove("k-1")) == one
    assert store.write(lambda writing: writing.block_remove("k-1")) is None
    assert store.change() == 3


@pytest.mark.parametrize("wrong", [{"count": 0}, {"end": day(1)}])
def test_an_impossible_block_is_refused_by_the_schema(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(StoreError):
        store.write(lambda writing: writing.block_add(a_block(**wrong)))
    assert store.change() == 0


def test_exemptions_hold_from_their_start_until_their_end(store: Store) -> None:
    one, two = an_exemption(), an_exemption(id="e-2", user="bob", model=A100, start=day(5))
    store.write(lambda writing: (writing.exemption_add(one), writing.exemption_add(two)))
    with store.reading() as reading:
        assert reading.exemptions(None, None) == [one, two]
        assert reading.exemptions("bob", None) == [two]
        assert reading.exemptions("bob", day(5)) == [two]
        assert reading.exemptions("bob", day(5) - timedelta(seconds=1)) == []
        assert reading.exemptions(None, day(9)) == []
        assert reading.exemption("e-2") == two
    assert store.write(lambda writing: writing.exemption_remove("e-1")) == one
    assert store.write(lambda writing: writing.exemption_remove("e-1")) is None


def test_an_exemption_without_a_reason_is_refused_by_the_schema(store: Store) -> None:
    with pytest.raises(StoreError):
        store.write(lambda writing: writing.exemption_add(an_exemption(reason="")))


def test_the_audit_is_read_newest_first_page_by_page(store: Store) -> None:
    entries = [
        an_entry(1, reason="β", before={"a": [1]}, after={"a": None}),
        an_entry(2, actor="bob"),
        an_entry(3, subject="b-1"),
    ]
    store.write(lambda writing: [writing.audit(entry) for entry in entries])
    with store.reading() as reading:
        found = reading.audit_page(after=None, limit=2)
        assert [each.subject for each in found] == ["b-1", "b-2"]
        rest = reading.audit_page(after=found[-1].number, limit=2)
        assert rest == [msgspec.structs.replace(entries[0], number=rest[0].number)]
        assert [each.at for each in reading.audit_page(after=None, limit=9, subject="b-1")] == [
            day(3),
            day(1),
        ]
        assert [each.at for each in reading.audit_page(after=None, limit=9, actor="bob")] == [day(2)]


def test_a_rolled_back_write_leaves_no_audit_entry(store: Store) -> None:
    def fails(writing: Any) -> None:
        writing.audit(an_entry(1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(fails)
    assert store.read(lambda reading: reading.audit_page(after=None, limit=1)) == []


def test_refused_demand_is_kept_for_half_a_year(store: Store) -> None:
    one = Denied(
        at=day(0),
        user="alice",
        model=A100,
        count=2**31,
        start=day(1),
        end=None,
        rules=("cooldown", "capacity"),
        earliest_start=day(9),
    )
    for at in (0, 1, 180.5):
        store.write(lambda writing, at=at: writing.denied_add(msgspec.structs.replace(one, at=day(at))))
    with store.reading() as reading:
        found = reading.denied_page(after=None, limit=9)
        assert [each.at for each in found] == [day(180.5), day(1)]
        assert found[1] == msgspec.structs.replace(one, at=day(1), number=found[1].number)
        assert reading.denied_page(after=found[1].number, limit=9) == []


def test_an_answer_is_stored_for_its_principal_and_key(store: Store) -> None:
    store.write(lambda writing: writing.remember("alice", "k", a_reply()))
    with store.reading() as reading:
        assert reading.replayed("alice", "k") == a_reply()
        assert reading.replayed("alice", "K") is None
        assert reading.replayed("bob", "k") is None


def test_a_key_never_gets_two_answers(store: Store) -> None:
    store.write(lambda writing: writing.remember("alice", "k", a_reply()))
    with pytest.raises(StoreError, match=r"(?i)unique"):
        store.write(lambda writing: writing.remember("alice", "k", a_reply("other", at=1)))
    assert store.read(lambda reading: reading.replayed("alice", "k")) == a_reply()


def test_a_key_is_kept_for_a_day_at_least_and_not_indefinitely(store: Store) -> None:
    store.write(lambda writing: writing.remember("alice", "k", a_reply()))
    store.write(lambda writing: writing.remember("alice", "later", a_reply(at=1.5)))
    assert store.read(lambda reading: reading.replayed("alice", "k"))
    store.write(lambda writing: writing.remember("alice", "much later", a_reply(at=2.5)))
    assert store.read(lambda reading: reading.replayed("alice", "k")) is None


def test_a_session_exists_until_it_expires_or_is_ended(store: Store) -> None:
    sessions = [a_session(), a_session("s-2"), a_session("s-3", user="bob")]
    store.write(lambda writing: [writing.session_add(each) for each in sessions])
    with store.reading() as reading:
        assert reading.session("s-1", day(1) - timedelta(seconds=1)) == sessions[0]
        assert reading.session("s-1", day(1)) is None
    store.write(lambda writing: writing.session_remove("s-1"))
    with store.reading() as reading:
        assert reading.session("s-1", day(0)) is None
        assert reading.session("s-2", day(0))


def test_an_address_is_the_newest_one_and_is_found_in_any_capitalisation(store: Store) -> None:
    for user, email in (
        ("alice", "old@example.org"),
        ("alice", "Alice@Example.org"),
        ("bob", "b@example.org"),
    ):
        store.write(lambda writing, u=user, e=email: writing.email_set(u, e, day(0)))
    with store.reading() as reading:
        assert reading.users_with_email("alice@example.ORG") == ["alice"]
        assert reading.users_with_email("old@example.org") == []
    store.write(lambda writing: writing.email_set("alice", None, day(1)))
    assert store.read(lambda reading: reading.users_with_email("alice@example.org")) == []
