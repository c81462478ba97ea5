"""What tenants are owed: integrated exactly, bounded, and forgotten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.fairshare import EQUAL, Account, Books, Shares, Tenant, advance, deserve, observe
from cluster.decide.fairshare.settings import DAY, HOUR

ALICE, BOB = Tenant("alice"), Tenant("bob")
STARVED = deserve(EQUAL, 8, {BOB: 8}, {ALICE: 8})
"""Alice deserves four GPUs, and bob has all eight."""


@given(cuts=st.lists(st.integers(1, HOUR), max_size=6))
def test_it_does_not_matter_how_often_it_is_integrated(cuts: list[int]) -> None:
    """Passes may come at any time."""
    at_once = advance(Books(), STARVED, HOUR)
    books = Books()
    for instant in sorted({*cuts, HOUR}):
        books = advance(books, STARVED, instant)
    assert books.of(ALICE) == at_once.of(ALICE)
    assert books.of(BOB).lag == at_once.of(BOB).lag
    assert books.of(BOB).use == pytest.approx(at_once.of(BOB).use)


def test_who_waits_below_the_share_is_owed_what_others_have_above_theirs() -> None:
    """Four GPUs for an hour."""
    books = advance(Books(), STARVED, HOUR)
    assert books.of(ALICE) == Account(lag=4 * HOUR, withheld=4 * HOUR, starved_since=0)
    assert books.of(BOB).lag == -4 * HOUR


def test_a_spell_of_starvation_ends_when_the_share_is_reached() -> None:
    """What was withheld then counts no more; the lag stays."""
    served = deserve(EQUAL, 8, {ALICE: 4, BOB: 4}, {ALICE: 4, BOB: 4})
    books = observe(advance(Books(), STARVED, HOUR), served)
    assert books.of(ALICE) == Account(lag=4 * HOUR)


def test_lag_is_bounded_but_grows_far_enough_for_a_large_gang() -> None:
    """Ten turns of a GPU by default; more for who waits with a unit that needs more."""
    small = advance(Books(), STARVED, 30 * DAY).of(ALICE).lag
    large = advance(Books(), STARVED, 30 * DAY, largest={ALICE: 64}).of(ALICE).lag
    assert small == 40 * HOUR
    assert large == 320 * HOUR


def test_who_wants_nothing_is_owed_nothing() -> None:
    """Without a pod no lag is kept; with one that has its share it fades by half a day."""
    owed = Books(accounts={ALICE: Account(lag=8 * HOUR)})
    alone = deserve(EQUAL, 8, {BOB: 1}, {})
    content = deserve(EQUAL, 8, {ALICE: 1}, {})
    assert advance(owed, alone, DAY).of(ALICE).lag == 0
    assert advance(owed, content, DAY).of(ALICE).lag == pytest.approx(4 * HOUR)


def test_a_clock_that_was_set_back_changes_nothing() -> None:
    """Until it has caught up."""
    books = advance(Books(), STARVED, HOUR)
    assert advance(books, STARVED, HOUR // 2) is books


def test_booked_time_counts_as_use_alone() -> None:
    """It decides ties; it is no lag, and nothing that is held."""
    none: Shares = deserve(EQUAL, 8, {}, {})
    account = advance(Books(), none, HOUR, booked={ALICE: 2}).of(ALICE)
    assert account.lag == 0
    assert account.use == pytest.approx(2 * HOUR, rel=0.01)
