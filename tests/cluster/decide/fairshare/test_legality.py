"""Who may take what from whom, and when it is due."""

from fractions import Fraction

from cluster.decide.fairshare import (
    EQUAL,
    Account,
    Books,
    Case,
    Running,
    Shares,
    ShareSettings,
    Standing,
    Tenant,
    Tree,
    Unit,
    Verdict,
    deserve,
    is_legal,
)
from cluster.decide.fairshare.settings import DAY, HOUR, MINUTE

ALICE, BOB = Tenant("alice"), Tenant("bob")
NOW = DAY


def a_case(
    shares: Shares,
    account: Account,
    tenant: Tenant = ALICE,
    *,
    gpus: int = 1,
    settings: ShareSettings | None = None,
) -> Case:
    books = Books(at=NOW, accounts=dict.fromkeys(shares.tree.path(tenant), account))
    return Case(Unit(uid="u", tenant=tenant, gpus=gpus), shares, books, settings or ShareSettings())


def starved(**facts: int) -> Account:
    return Account(starved_since=NOW - HOUR, **facts)


FOUR = deserve(EQUAL, 4, {BOB: 4}, {ALICE: 4, BOB: 4})
"""Alice and bob deserve two GPUs each, and bob has all four."""


def test_within_the_shares_of_both_it_is_a_question_of_what_was_withheld() -> None:
    """Two hours are lost, one was withheld, and two GPUs are lacking: half an hour more."""
    case = a_case(FOUR, starved(withheld=HOUR))
    assert case.judge({BOB: 1}, 3 * HOUR) == Verdict(0, "worth", HOUR // 2)
    assert case.judge({BOB: 1}, 2 * HOUR) == Verdict(1)
    assert a_case(FOUR, starved(), settings=ShareSettings(worth=Fraction(0))).judge(
        {BOB: 1}, 99 * HOUR
    ) == Verdict(1)


def test_what_victims_work_while_somebody_waits_does_not_put_off_the_day() -> None:
    """An announced instant stays."""
    case = a_case(FOUR, starved(withheld=2 * HOUR))
    later = Case(case.unit, FOUR, Books(at=NOW + HOUR, accounts=case.books.accounts), case.settings)
    assert case.judge({BOB: 1}, 3 * HOUR).kind == 1
    assert later.judge({BOB: 1}, 4 * HOUR).kind == 1


def test_nobody_loses_a_share_for_one_that_is_not_behind() -> None:
    """Bob would keep one of two: only a turn takes that, and alice has not waited for it."""
    case = a_case(FOUR, starved(withheld=DAY), gpus=2)
    assert case.judge({BOB: 3}, 0) == Verdict(0, "victims-share")
    owed = a_case(FOUR, starved(withheld=DAY, lag=5 * HOUR), gpus=2)
    assert owed.judge({BOB: 3}, 0) == Verdict(2)
    assert a_case(FOUR, starved(lag=5 * HOUR), settings=ShareSettings(turn=None)).judge({BOB: 3}, 0).kind == 0


def test_a_pod_larger_than_the_share_is_due_when_its_turn_is_paid_for() -> None:
    """Two GPUs too many for four hours, at two GPUs an hour: four hours, and it has waited for one."""
    case = a_case(FOUR, starved(lag=2 * HOUR), gpus=4)
    assert case.may_ask() == Verdict(0, "lag", 3 * HOUR)
    due = a_case(FOUR, starved(lag=8 * HOUR), gpus=4)
    assert due.may_ask() == Verdict(2)
    assert due.judge({BOB: 4}, 8 * HOUR - 1) == Verdict(0, "victims-share")


def test_a_turn_destroys_at_most_half_of_what_it_gives() -> None:
    """Eight hours of sixteen; not with ``turn_loss`` none."""
    account = starved(lag=17 * HOUR)
    assert a_case(FOUR, account, gpus=4).judge({BOB: 4}, 8 * HOUR) == Verdict(2)
    assert a_case(FOUR, account, gpus=4).judge({BOB: 4}, 8 * HOUR + 1) == Verdict(0, "turn-loss")
    assert (
        a_case(FOUR, account, gpus=4, settings=ShareSettings(turn_loss=None)).judge({BOB: 4}, DAY).kind == 2
    )


def test_first_a_minute_passes() -> None:
    """``reclaim_after``, without a break."""
    case = a_case(FOUR, Account(starved_since=NOW - MINUTE // 2))
    assert case.may_ask() == Verdict(0, "patience", MINUTE // 2)
    assert a_case(FOUR, starved()).may_ask() == Verdict(1)


def test_not_many_more_gpus_are_taken_than_are_needed() -> None:
    """Twice, or a node."""
    many = deserve(EQUAL, 40, {BOB: 40}, {ALICE: 1, BOB: 1})
    assert a_case(many, starved()).judge({BOB: 9}, 0) == Verdict(0, "cap")
    assert a_case(many, starved()).judge({BOB: 8}, 0) == Verdict(0, "victims-share")
    assert a_case(many, starved()).judge({BOB: 1}, 0) == Verdict(1)


def test_where_the_group_has_its_share_only_its_own_members_give() -> None:
    """Alice's group holds its half; she has nothing of it."""
    mine, mate, other = Tenant("alice", "vision"), Tenant("bob", "vision"), Tenant("carol", "speech")
    tree = Tree(groups={"vision": Standing(), "speech": Standing()})
    shares = deserve(tree, 8, {mate: 4, other: 4}, {mine: 4, other: 4})
    case = a_case(shares, starved(withheld=DAY), mine)
    assert case.judge({mate: 1}, 0) == Verdict(1)
    assert case.judge({other: 1}, 0).kind == 0


def test_a_group_gives_back_what_it_has_above_its_share_though_each_member_holds_one() -> None:
    """Four accounts of a lab with a GPU each deserve half a one; below the lab's two nobody has to go."""
    lab = [Tenant(f"account-{number}", "lab") for number in range(4)]
    shares = deserve(Tree(groups={"lab": Standing()}), 4, dict.fromkeys(lab, 1), {ALICE: 4})
    case = a_case(shares, starved(withheld=DAY), settings=ShareSettings(turn=None))
    assert case.judge({lab[0]: 1}, 0) == Verdict(1)
    assert a_case(shares, starved(withheld=DAY), gpus=2).judge({lab[0]: 1, lab[1]: 1}, 0).kind == 1
    assert a_case(shares, starved(withheld=DAY), gpus=3).judge(dict.fromkeys(lab[:3], 1), 0).kind == 0
    assert [case.allowance(lab[0], tier) for tier in ("spare", "group")] == [Fraction(1, 2), 2]


def test_the_last_check_asks_the_same_function_again() -> None:
    """Bob's other pods have ended meanwhile: what was within shares is not any more."""
    victim = Running(unit=Unit(uid="b", tenant=BOB, gpus=1), since=0)
    fresh = deserve(EQUAL, 4, {BOB: 2}, {ALICE: 4})
    assert is_legal(a_case(FOUR, starved(withheld=DAY)), {"b": victim}, 0).kind == 1
    assert is_legal(a_case(fresh, starved(withheld=DAY)), {"b": victim}, 0).kind == 0


def test_protection_grows_with_each_eviction_and_ends_a_day_after_the_third() -> None:
    """Ten minutes, twenty, forty, at most eight hours; a turn protects by itself."""
    settings, unit = ShareSettings(), Unit(uid="b", tenant=BOB, gpus=1)
    until = [
        Running(unit=unit, since=NOW, evictions=n).protected_until(settings, NOW) - NOW for n in (0, 1, 2, 9)
    ]
    assert until == [10 * MINUTE, 20 * MINUTE, 40 * MINUTE, 8 * HOUR]
    taken = (NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - HOUR)
    assert Running(unit=unit, since=0, taken=taken).protected_until(settings, NOW) == NOW + 21 * HOUR
    assert Running(unit=unit, since=0, taken=taken[1:]).protected_until(settings, NOW) <= NOW
    assert (
        Running(unit=unit, since=NOW, turn_until=NOW + HOUR).protected_until(settings, NOW, is_on_loan=True)
        == NOW + HOUR
    )
