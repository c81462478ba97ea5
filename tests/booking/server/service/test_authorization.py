"""Whose bookings a user sees and changes, with what reason, and by which version."""

import pytest

from booking.principals import Principal
from booking.server.errors import NotAllowedError, RefusedError, StaleError, UnknownBookingError
from booking.server.service.authorization import (
    LONGEST_REASON,
    LONGEST_USER,
    Expected,
    beneficiary,
    found,
    reason_of,
    require_administrator,
    require_current,
    required_reason,
)
from booking.server.store import Store
from cluster.decide.identity import Rule, Source
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import a_record

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
RULES = (
    Rule(source="kubernetes", match=r"([^@]+)@nodes[.]example", user=r"node-\1"),
    Rule(source="oidc", match=r"([^@]+)@example[.]org", user=r"\1"),
)
RECORD = a_record()


@pytest.mark.parametrize(
    ("who", "user", "owner"),
    [
        (ALICE, None, "alice"),
        (ALICE, "alice", "alice"),
        (ROOT, None, "root"),
        (ROOT, "alice", "alice"),
        (ROOT, "x" * LONGEST_USER, "x" * LONGEST_USER),
        (ROOT, "bob@example.org", "bob"),
        (ROOT, "seven@nodes.example", "node-seven"),
        (somebody("a@b.example"), "a@b.example", "a@b.example"),
    ],
)
def test_a_booking_is_for_oneself_or_for_the_user_whom_an_administrator_names(
    who: Principal, user: str | None, owner: str
) -> None:
    assert beneficiary(who, user, RULES) == owner


@pytest.mark.parametrize(
    ("folding", "owner"),
    [(("kubernetes", "oidc"), "myoung"), (("oidc",), "MYoung"), ((), "MYoung")],
)
def test_a_name_that_sign_in_folds_is_folded_where_an_administrator_gives_it(
    folding: tuple[str, ...], owner: str
) -> None:
    sources: tuple[Source, ...] = ("kubernetes", "oidc")
    rules = [Rule(source=source, match="[^@]+", fold=source in folding) for source in sources]
    assert beneficiary(ROOT, "MYoung", rules) == owner


@pytest.mark.parametrize(
    "user", ["", " ", " bob", "bob ", "x" * (LONGEST_USER + 1), "b\nb", "b\x00", "bob@example.com"]
)
def test_an_impossible_user_id_is_explained_to_administrators_only(user: str) -> None:
    with pytest.raises(RefusedError, match="Nobody has the user id") as refused:
        beneficiary(ROOT, user, RULES)
    assert [violation.rule for violation in refused.value.violations] == ["not-a-user"]
    with pytest.raises(NotAllowedError):
        beneficiary(ALICE, user, RULES)


def test_a_refused_user_reads_what_only_administrators_may_do() -> None:
    require_administrator(ROOT, "see the audit")
    with pytest.raises(NotAllowedError, match="Only administrators may see the audit, and 'bob' is none"):
        require_administrator(BOB, "see the audit")


@pytest.mark.parametrize(
    ("expected", "is_fresh"),
    [
        (None, True),
        (RECORD.version, True),
        (frozenset({"0", RECORD.version}), True),
        ("0", False),
        ("", False),
        (frozenset({"0", "1"}), False),
        (frozenset[str](), False),
    ],
)
def test_a_change_that_expects_versions_needs_the_current_one_among_them(
    expected: Expected, *, is_fresh: bool
) -> None:
    if is_fresh:
        require_current(RECORD, expected)
        return
    with pytest.raises(StaleError, match="b-one has changed since you saw it") as stale:
        require_current(RECORD, expected)
    assert stale.value.version == RECORD.version


@pytest.mark.parametrize(
    ("who", "reason", "expected"),
    [
        (ALICE, None, None),
        (ALICE, " done ", "done"),
        (ROOT, " fire ", "fire"),
        (ROOT, "x" * LONGEST_REASON, "x" * LONGEST_REASON),
        (ROOT, f" {'x' * LONGEST_REASON} ", "x" * LONGEST_REASON),
    ],
)
def test_administrators_give_a_reason_and_owners_need_none(
    who: Principal, reason: str | None, expected: str | None
) -> None:
    assert reason_of(who, "alice", reason) == expected


@pytest.mark.parametrize(
    ("who", "reason", "rule"),
    [
        (ROOT, None, "no-reason"),
        (ROOT, "", "no-reason"),
        (ALICE, " \t", "no-reason"),
        (ALICE, "x" * (LONGEST_REASON + 1), "reason-too-long"),
        (ROOT, "the\x00rack", "not-a-reason"),
        (ROOT, "one\ntwo", "not-a-reason"),
    ],
)
def test_an_invalid_reason_is_refused_to_owners_too(who: Principal, reason: str | None, rule: str) -> None:
    with pytest.raises(RefusedError) as refused:
        reason_of(who, "alice", reason)
    assert [violation.rule for violation in refused.value.violations] == [rule]


def test_an_order_always_needs_a_reason() -> None:
    assert required_reason("fire\n") == "fire"
    with pytest.raises(RefusedError, match="a reason is missing"):
        required_reason(None)


@pytest.mark.parametrize(
    ("who", "booking", "message"),
    [
        (ALICE, "b-one", None),
        (ROOT, "b-one", None),
        (BOB, "b-one", "You have no booking 'b-one'."),
        (ALICE, "b-two", "You have no booking 'b-two'."),
        (ROOT, "b-two", "There is no booking 'b-two'."),
    ],
)
def test_bookings_of_others_are_unknown_to_all_but_administrators(
    store: Store, who: Principal, booking: str, message: str | None
) -> None:
    stored = store.write(lambda writing: writing.add(RECORD, guard=None))
    if message is None:
        assert store.read(lambda reading: found(reading, who, booking)) == stored
        return
    with pytest.raises(UnknownBookingError) as unknown:
        store.read(lambda reading: found(reading, who, booking))
    assert str(unknown.value) == message
