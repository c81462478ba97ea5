"""The two-level heap: users by what they hold, a user's pods by priority and age."""

from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.fairshare import (
    EQUAL,
    Account,
    Books,
    Line,
    Standing,
    Tenant,
    Tree,
    Unit,
    deserve,
    grants,
    in_turn,
)
from tests.fairness.machines import Machines, Placement

ALICE, BOB, CAROL = Tenant("alice"), Tenant("bob"), Tenant("carol")


def pod(uid: str, tenant: Tenant, gpus: int = 1, *, priority: int = 0, created: int = 0) -> Unit:
    return Unit(uid=uid, tenant=tenant, gpus=gpus, priority=priority, created=created)


def order(units: list[Unit], held: dict[Tenant, int], tree: Tree = EQUAL, books: Books | None = None) -> str:
    line = Line(units)
    shares = deserve(tree, 8, held, line.wanted)
    return " ".join(unit.uid for unit in in_turn(line, shares, books or Books()))


def started(units: list[Unit], machines: Machines, tree: Tree = EQUAL) -> list[str]:
    line = Line(units)

    def place(unit: Unit) -> Placement | None:
        placement = machines.place(unit.parts)
        if placement is not None:
            machines.take(unit.uid, placement)
        return placement

    return [unit.uid for unit, _ in grants(line, deserve(tree, 8, {}, line.wanted), Books(), place)]


def test_pods_of_two_users_alternate_whoever_submitted_more_and_earlier() -> None:
    """The article's first picture: twenty older pods of bob do not keep alice from the second GPU."""
    units = [pod(f"b{n}", BOB, created=n) for n in range(4)] + [
        pod("a0", ALICE, created=50),
        pod("a1", ALICE, created=51),
    ]
    assert order(units, {}) == "b0 a0 b1 a1 b2 b3"


def test_who_holds_less_is_first() -> None:
    """The most starved user is at the top of the heap."""
    assert order([pod("a", ALICE, created=9), pod("b", BOB, created=1)], {BOB: 2, ALICE: 1}) == "a b"


def test_priority_counts_among_a_users_own_pods_alone() -> None:
    """Nobody overtakes others by it."""
    units = [pod("low", BOB, created=1), pod("high", BOB, priority=9, created=2), pod("a", ALICE, created=3)]
    assert order(units, {BOB: 1}) == "a high low"


def test_weight_quota_and_past_use() -> None:
    """Who is below the quota is first; then by amount and weight; ties go to who has used less."""
    tree = Tree(users={"bob": Standing(weight=Fraction(2)), "carol": Standing(quota=4)})
    units = [pod("a", ALICE), pod("b", BOB), pod("c", CAROL)]
    assert order(units, {ALICE: 1, BOB: 1, CAROL: 3}, tree) == "c b a"
    books = Books(accounts={ALICE: Account(use=10)})
    assert order([pod("a", ALICE, created=1), pod("b", BOB, created=2)], {}, books=books) == "b a"


def test_a_groups_members_share_what_the_group_gets() -> None:
    """Many accounts in one group count once."""
    many = [pod(f"g{n}", Tenant(f"user{n}", "lab"), created=n) for n in range(4)]
    assert (
        order([*many, *(pod(f"a{n}", ALICE, created=9 + n) for n in range(3))], {}) == "g0 a0 g1 a1 g2 a2 g3"
    )


def test_a_pod_that_fits_is_not_kept_waiting_by_one_that_does_not() -> None:
    """Bob's eight GPUs are not free: his one-GPU pod and alice's take what is."""
    machines = Machines(1, 8)
    machines.take("x", (("n000", tuple(machines.free["n000"][:5])),))
    units = [
        pod("big", BOB, 8, created=1),
        pod("b", BOB, created=2),
        *(pod(f"a{n}", ALICE, created=9) for n in range(9)),
    ]
    assert started(units, machines) == ["b", "a0", "a1"]


def test_a_limit_holds_even_where_gpus_are_free() -> None:
    """The one reason for which a free GPU is refused."""
    tree = Tree(users={"alice": Standing(limit=2)})
    assert started([pod(f"a{n}", ALICE) for n in range(5)], Machines(1, 8), tree) == ["a0", "a1"]


UNITS = st.lists(
    st.builds(
        lambda tenant, gpus, priority, created: (tenant, gpus, priority, created),
        st.sampled_from([ALICE, BOB, CAROL, Tenant("alice", "lab"), Tenant("bob", "lab")]),
        st.sampled_from([1, 1, 2, 4, 8]),
        st.integers(-1, 1),
        st.integers(0, 5),
    ),
    max_size=25,
)


@given(drawn=UNITS, random=st.randoms(use_true_random=False))
def test_the_order_in_which_pods_became_known_does_not_matter(
    drawn: list[tuple[Tenant, int, int, int]], random: Random
) -> None:
    """An index kept by event answers as one built at once, after pods have come and gone."""
    units = [
        pod(f"p{n:02}", tenant, gpus, priority=priority, created=created)
        for n, (tenant, gpus, priority, created) in enumerate(drawn)
    ]
    expected = started(units, Machines(2, 8))
    shuffled = list(units)
    random.shuffle(shuffled)
    line = Line(pod(f"gone{n}", BOB, created=n) for n in range(3))
    for unit in shuffled:
        line.add(unit)
    for n in range(3):
        line.remove(f"gone{n}")
    assert started(list(line), Machines(2, 8)) == expected
    assert line.wanted == Line(units).wanted
    assert line.largest == Line(units).largest
