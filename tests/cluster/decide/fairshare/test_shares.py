"""Deserved shares: what moves them, and what does not."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.fairshare import EQUAL, Standing, Tenant, Tree, deserve

ALICE, BOB, CAROL = Tenant("alice"), Tenant("bob"), Tenant("carol")
TENANTS = st.sampled_from([ALICE, BOB, CAROL, Tenant("alice", "x"), Tenant("bob", "x"), Tenant("carol", "y")])
AMOUNTS = st.dictionaries(TENANTS, st.integers(0, 12))
STANDINGS = st.builds(
    Standing,
    weight=st.sampled_from([Fraction(1), Fraction(3), Fraction(1, 2)]),
    quota=st.integers(0, 4),
    limit=st.none() | st.integers(4, 9),
)
TREES = st.builds(
    Tree,
    groups=st.dictionaries(st.sampled_from("xy"), STANDINGS),
    users=st.dictionaries(st.sampled_from(["alice", "bob"]), STANDINGS),
)


@given(tree=TREES, capacity=st.integers(0, 30), held=AMOUNTS, wanted=AMOUNTS, moves=AMOUNTS)
def test_starting_and_evicting_move_no_share(
    tree: Tree, capacity: int, held: dict[Tenant, int], wanted: dict[Tenant, int], moves: dict[Tenant, int]
) -> None:
    """L10: what waits begins to run, or the other way round; what is wanted together stays."""
    shares = deserve(tree, capacity, held, wanted)
    changes = {one: min(amount, wanted.get(one, 0)) for one, amount in moves.items()}
    changes |= {one: -amount for one, amount in held.items() if one not in changes}
    after = shares.after(changes)
    now_held = {one: held.get(one, 0) + changes.get(one, 0) for one in {*held, *changes}}
    now_wanted = {one: wanted.get(one, 0) - changes.get(one, 0) for one in {*wanted, *changes}}
    again = deserve(tree, capacity, now_held, now_wanted)
    assert again.deserved == after.deserved == shares.deserved
    for tenant in {*now_held, *now_wanted}:
        assert again.held.get(tenant, 0) == after.held.get(tenant, 0)
        assert again.lacks(tenant) == after.lacks(tenant)


@given(tree=TREES, capacity=st.integers(0, 30), held=AMOUNTS, wanted=AMOUNTS)
def test_everything_is_divided_and_members_get_what_their_group_gets(
    tree: Tree, capacity: int, held: dict[Tenant, int], wanted: dict[Tenant, int]
) -> None:
    """Unless limits leave something."""
    shares = deserve(tree, capacity, held, wanted)
    for group in "xy":
        members = [share for one, share in shares.deserved.items() if one.user and one.group == group]
        assert sum(members) == shares.deserved.get(Tenant("", group), 0)
    divided = sum(share for one, share in shares.deserved.items() if one.user)
    demand = sum(held.values()) + sum(wanted.values())
    has_limits = any(one.limit is not None for one in (*tree.groups.values(), *tree.users.values()))
    assert divided <= min(capacity, demand)
    assert has_limits or divided == min(capacity, demand)


def test_ten_thousand_pods_of_one_user_change_nothing_for_the_others() -> None:
    """Wishes beyond what there is are worth nothing."""
    few = deserve(EQUAL, 8, {}, {ALICE: 8, BOB: 8})
    many = deserve(EQUAL, 8, {}, {ALICE: 8, BOB: 10_000})
    assert few.deserved == many.deserved == {ALICE: 4, BOB: 4}


def test_quotas_above_what_there_is_are_scaled() -> None:
    """An administrator promised twelve of six."""
    tree = Tree(users={"alice": Standing(quota=8), "bob": Standing(quota=4)})
    assert deserve(tree, 6, {}, {ALICE: 9, BOB: 9, CAROL: 9}).deserved == {ALICE: 4, BOB: 2, CAROL: 0}
