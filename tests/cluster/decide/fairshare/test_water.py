"""The division of GPUs: exact, complete, and fair by weight."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.fairshare.water import divide, water_fill

KEYS = st.sampled_from("abcdefgh")
DEMAND = st.dictionaries(KEYS, st.integers(0, 20) | st.fractions(0, 5, max_denominator=7), min_size=1)
TOTAL = st.integers(0, 40)
WEIGHTS = st.fixed_dictionaries(dict.fromkeys("abcdefgh", st.integers(1, 5)))


@given(total=TOTAL, demand=DEMAND, weight=WEIGHTS)
def test_nobody_gets_more_than_demanded_and_all_others_the_same_per_weight(
    total: int, demand: dict[str, int | Fraction], weight: dict[str, int]
) -> None:
    """The definition of weighted max-min, without rounding."""
    shares = water_fill(total, demand, weight)
    assert sum(shares.values()) == min(total, sum(demand.values()))
    assert all(0 <= shares[key] <= demand[key] for key in demand)
    short = {Fraction(shares[key]) / weight[key] for key in demand if shares[key] < demand[key]}
    assert len(short) <= 1
    for level in short:
        assert all(Fraction(share) / weight[key] <= level for key, share in shares.items())


@given(total=TOTAL, demand=DEMAND, weight=WEIGHTS)
def test_the_order_of_names_does_not_matter(
    total: int, demand: dict[str, int | Fraction], weight: dict[str, int]
) -> None:
    """The same for the same amounts."""
    backwards = dict(reversed(demand.items()))
    assert water_fill(total, demand, weight) == water_fill(total, backwards, weight)


@given(total=TOTAL, demand=DEMAND, weight=WEIGHTS, quota=st.dictionaries(KEYS, st.integers(0, 9)))
def test_quotas_come_first_and_are_scaled_down_together(
    total: int, demand: dict[str, int | Fraction], weight: dict[str, int], quota: dict[str, int]
) -> None:
    """Who has a quota gets it, up to the demand, unless all quotas together are more than there is."""
    shares = divide(total, demand, weight, quota)
    base = {key: min(quota.get(key, 0), amount) for key, amount in demand.items()}
    assert sum(shares.values()) == min(total, sum(demand.values()))
    if sum(base.values()) <= total:
        assert all(shares[key] >= base[key] for key in demand)
    else:
        assert all(shares[key] <= base[key] for key in demand)


def test_ten_gpus_for_three_are_three_and_a_third_each() -> None:
    """No remainder goes to whoever is oldest."""
    shares = water_fill(10, dict.fromkeys("abc", 9), dict.fromkeys("abc", 1))
    assert set(shares.values()) == {Fraction(10, 3)}
