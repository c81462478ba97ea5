"""Sessions are known until they expire or are ended; a user has the address that was given last."""

from datetime import datetime, timedelta

import msgspec
import pytest

from booking.server.store import Store
from booking.server.store_records import Session
from tests.fakes.records import day

SECOND = timedelta(seconds=1)
NOW = day(0)


def a_session(name: str = "s-1", **more: object) -> Session:
    session = Session(id=name, user="alice", name="alice", csrf="c", created=day(0), expires=day(1))
    return msgspec.structs.replace(session, **more)


def known(store: Store, name: str, now: datetime = NOW) -> Session | None:
    return store.read(lambda reading: reading.session(name, now))


def users(store: Store, email: str) -> list[str]:
    return store.read(lambda reading: reading.users_with_email(email))


def set_email(store: Store, user: str, email: str | None, at: float = 0) -> None:
    store.write(lambda writing: writing.email_set(user, email, day(at)))


@pytest.mark.parametrize(
    "session",
    [
        a_session(),
        a_session(groups=("b", "a", "b")),
        a_session(data={"token": {"a": [1, None, "β"]}}),
        msgspec.structs.replace(a_session(), name="Älice <a@example.org>", csrf=""),
    ],
    ids=["plain", "groups in their order", "any data", "any text"],
)
def test_a_session_is_read_back_as_stored(store: Store, session: Session) -> None:
    store.write(lambda writing: writing.session_add(session))
    assert known(store, "s-1") == session


@pytest.mark.parametrize(
    ("now", "is_known"),
    [(day(0), True), (day(1) - SECOND, True), (day(1), False), (day(9), False)],
    ids=["at its beginning", "in its last second", "at its end", "later"],
)
def test_a_session_is_known_until_it_expires(store: Store, now: datetime, *, is_known: bool) -> None:
    store.write(lambda writing: writing.session_add(a_session()))
    assert (known(store, "s-1", now) is not None) == is_known


@pytest.mark.parametrize("name", ["s-2", "", "S-1", "%"])
def test_a_session_is_found_and_ended_only_by_its_exact_name(store: Store, name: str) -> None:
    store.write(lambda writing: writing.session_add(a_session()))
    assert known(store, name) is None
    store.write(lambda writing: writing.session_remove(name))
    assert known(store, "s-1") is not None


def test_signing_out_of_one_session_keeps_the_others(store: Store) -> None:
    for name in ("s-1", "s-2"):
        store.write(lambda writing, name=name: writing.session_add(a_session(name)))
    store.write(lambda writing: writing.session_remove("s-1"))
    assert (known(store, "s-1"), known(store, "s-2")) == (None, a_session("s-2"))


@pytest.mark.parametrize(
    ("created", "is_kept"),
    [(day(1) - SECOND, True), (day(1), False)],
    ids=["it has a second left", "it expires then"],
)
def test_expired_sessions_are_deleted_when_a_user_signs_in(
    store: Store, created: datetime, *, is_kept: bool
) -> None:
    store.write(lambda writing: writing.session_add(a_session()))
    store.write(lambda writing: writing.session_add(a_session("s-2", created=created, expires=day(2))))
    # As if the clock had gone back: a session that is still stored would be found.
    assert (known(store, "s-1") is not None) == is_kept
    assert known(store, "s-2") is not None


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("alice@example.org", ["alice"]),
        ("ALICE@EXAMPLE.ORG", ["alice"]),
        ("alice@example.or", []),
        ("%@example.org", []),
        ("shared@example.org", ["alice2", "bob"]),
        ("", []),
    ],
)
def test_an_address_is_found_as_a_whole_in_any_capitalisation(
    store: Store, address: str, found: list[str]
) -> None:
    for user, email in (
        ("bob", "Shared@Example.org"),
        ("alice2", "shared@example.org"),
        ("alice", "Alice@example.org"),
    ):
        set_email(store, user, email)
    assert users(store, address) == found


def test_the_newest_address_of_a_user_replaces_only_their_previous_one(store: Store) -> None:
    set_email(store, "alice", "a@example.org")
    set_email(store, "bob", "a@example.org")
    set_email(store, "alice", "new@example.org", at=1)
    assert (users(store, "a@example.org"), users(store, "new@example.org")) == (["bob"], ["alice"])


@pytest.mark.parametrize(
    ("user", "left"), [("alice", ["bob"]), ("nobody", ["alice", "bob"])], ids=["known", "unknown"]
)
def test_an_address_that_is_no_longer_given_is_deleted(store: Store, user: str, left: list[str]) -> None:
    for each in ("alice", "bob"):
        set_email(store, each, "a@example.org")
    set_email(store, user, None, at=1)
    assert users(store, "a@example.org") == left


def test_signing_in_and_out_does_not_count_as_a_change_for_the_mirror(store: Store) -> None:
    store.write(lambda writing: writing.session_add(a_session()))
    set_email(store, "alice", "a@example.org")
    store.write(lambda writing: writing.session_remove("s-1"))
    assert store.change() == 0
