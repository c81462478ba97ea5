"""Law L3 on one node: victims suffice, none could be spared, and no set is cheaper (by brute force)."""

from itertools import chain, combinations, islice
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.eviction.victim_selection import (
    NodeCandidate,
    Victim,
    cheapest,
    price,
    select_victims,
    sets,
)

COSTS = st.integers(0, 3) | st.integers(0, 10**15)
STARTS = st.integers(0, 2)
EVICTIONS = st.integers(0, 1)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Victim, ...]:
    """Up to eight pods, with up to sixteen devices together."""
    sizes = draw(st.lists(st.integers(1, 5), max_size=8).filter(lambda found: sum(found) <= 16))
    losses = {"": 0, "a": draw(COSTS), "b": draw(COSTS)}
    victims, device = [], 0
    for number, size in enumerate(sizes):
        devices = tuple(f"d{device + index}" for index in range(size))
        device += size
        gang = draw(st.sampled_from(sorted(losses)))
        victims.append(
            Victim(
                uid=f"v{number}",
                devices=devices,
                cost=0 if gang else draw(COSTS),
                since=draw(STARTS),
                evictions=draw(EVICTIONS),
                gang=gang,
                gang_cost=losses[gang],
            )
        )
    return tuple(draw(st.permutations(victims)))


def gain(victims: tuple[Victim, ...]) -> int:
    return sum(len(victim.devices) for victim in victims)


def every_set(victims: tuple[Victim, ...]) -> list[tuple[Victim, ...]]:
    sizes = range(len(victims) + 1)
    return list(chain.from_iterable(combinations(victims, size) for size in sizes))


@given(crowds(), st.integers(0, 17))
def test_the_chosen_set_is_the_cheapest_of_all_sets(victims: tuple[Victim, ...], missing: int) -> None:
    enough = [some for some in every_set(victims) if gain(some) >= missing]
    found = cheapest(victims, missing)
    if not enough:
        assert found is None
    else:
        assert found is not None
        assert price(found) == min(map(price, enough))


@given(crowds(), st.integers(0, 16))
def test_no_chosen_victim_could_be_spared(victims: tuple[Victim, ...], missing: int) -> None:
    found = cheapest(victims, missing)
    if found is not None:
        assert gain(found) >= missing
        assert all(gain(found) - len(victim.devices) < missing for victim in found)


@given(crowds(), st.integers(0, 16), st.randoms(use_true_random=False))
def test_the_same_pods_in_any_order_give_the_same_choice(
    victims: tuple[Victim, ...], missing: int, random: Random
) -> None:
    other = list(victims)
    random.shuffle(other)
    assert cheapest(tuple(other), missing) == cheapest(victims, missing)


@given(crowds(), st.integers(1, 16), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_exactly_as_many_devices_as_needed_and_one_of_each_victim(
    victims: tuple[Victim, ...], need: int, free: int, leaving: int, outgoing_devices: int
) -> None:
    site = NodeCandidate(
        node="n0",
        free=tuple(f"free{index}" for index in range(free)),
        leaving=tuple(f"leaving{index}" for index in range(leaving)),
        outgoing_devices=tuple(f"coming{index}" for index in range(outgoing_devices)),
        victims=victims,
    )
    found = select_victims(site, need)
    if found is None:
        assert free + leaving + outgoing_devices + gain(victims) < need
        return
    held = set(found.devices)
    assert len(found.devices) == len(held) == need
    assert all(held & set(victim.devices) for victim in found.victims)
    assert held <= {*site.free, *site.leaving, *site.outgoing_devices} | {
        uuid for victim in found.victims for uuid in victim.devices
    }
    assert found.waits == bool(held & set(site.outgoing_devices))
    assert found.busy == need - len(held & set(site.free))
    if found.victims:
        assert held >= {*site.free, *site.leaving, *site.outgoing_devices}


def test_equal_cost_spares_the_older_pods() -> None:
    old = Victim(uid="old", devices=("d0",), cost=0, since=1)
    new = Victim(uid="new", devices=("d1",), cost=0, since=2)
    assert cheapest((old, new), 1) == (new,)


def test_equal_cost_spares_pods_that_were_evicted_before() -> None:
    often = Victim(uid="often", devices=("d0",), cost=0, since=2, evictions=1)
    never = Victim(uid="never", devices=("d1",), cost=0, since=1)
    assert cheapest((often, never), 1) == (never,)


@given(crowds(), st.integers(-1, 16))
def test_each_sufficient_set_comes_once_in_order_of_cost(victims: tuple[Victim, ...], missing: int) -> None:
    found = list(sets(victims, missing))
    assert [price(one) for one in found] == sorted(
        price(some) for some in every_set(victims) if gain(some) >= missing
    )
    assert len({frozenset(victim.uid for victim in one) for one in found}) == len(found)


def test_only_the_cheapest_sixteen_of_very_many_pods_are_tried() -> None:
    many = tuple(Victim(uid=f"v{n:02}", devices=(f"d{n}",), cost=n, since=0) for n in range(20))
    assert max(victim.cost for one in islice(sets(many, 16), 1) for victim in one) == 15
    assert next(sets(many, 17), None) is None
