"""Law L3 for a share: the cheapest of all sets of sharers, as trying every set finds it."""

from itertools import chain, combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from cluster.decide.eviction.sharer_selection import Sharer, cheapest_sharers
from cluster.decide.eviction.victim_selection import Victim, price
from cluster.decide.ledger.amounts import NO_USE, DeviceUse, Holding
from cluster.objects.inventory import SharingMode
from tests.fakes.objects import shared_gpu

DEVICE = shared_gpu(0, memory=80, slots=5)


def a_part(memory: int, compute: int, *, slots: int = 1, mode: SharingMode | None = "time-slice") -> Holding:
    return Holding(DEVICE.uuid, memory, compute, mode, slots)


def brute_force(stays: DeviceUse, sharers: list[Sharer], wanted: Holding) -> tuple[Victim, ...] | None:
    found = []
    for gone in chain.from_iterable(combinations(sharers, size) for size in range(len(sharers) + 1)):
        use = stays
        for one in sharers:
            if one not in gone:
                use = use.plus(one.part)
        if use.room_on(DEVICE).fits(wanted):
            found.append(tuple(one.victim for one in gone))
    return min(found, key=price, default=None)


parts = st.builds(
    a_part,
    st.integers(1, 40),
    st.sampled_from((0, 0, 20, 50)),
    slots=st.integers(1, 2),
)
victims = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 2), st.sampled_from(("", "", "g")))


@given(
    theirs=st.lists(st.tuples(parts, victims), max_size=6),
    stays=st.lists(st.builds(a_part, st.integers(1, 30), st.just(10)), max_size=2),
    wanted=st.builds(a_part, st.integers(1, 90), st.sampled_from((0, 30, 100))),
)
def test_l3_the_sharers_that_leave_are_the_cheapest_set_after_which_the_share_fits(
    theirs: list[tuple[Holding, tuple[int, int, int, str]]], stays: list[Holding], wanted: Holding
) -> None:
    sharers = [
        Sharer(
            Victim(f"p{number}", (DEVICE.uuid,), cost, since, evictions, gang, 5 if gang else 0),
            part,
        )
        for number, (part, (cost, evictions, since, gang)) in enumerate(theirs)
    ]
    use = NO_USE
    for part in stays:
        use = use.plus(part)
    together = use
    for one in sharers:
        together = together.plus(one.part)
    assume(together.memory <= 80 and together.compute <= 100 and together.slots <= 5)
    expected = brute_force(use, sharers, wanted)
    found = cheapest_sharers(DEVICE, use, sharers, wanted)
    assert (found is None) is (expected is None)
    if found is not None and expected is not None:
        assert price(found) == price(expected)


def test_a_pod_that_has_the_whole_device_leaves_it_or_there_is_no_room() -> None:
    whole = Sharer(Victim("w", (DEVICE.uuid,), 9, 0), Holding(DEVICE.uuid))
    wanted = a_part(10, 0)
    assert cheapest_sharers(DEVICE, NO_USE, [whole], wanted) == (whole.victim,)
    assert cheapest_sharers(DEVICE, NO_USE.plus(whole.part), [], wanted) is None
    assert cheapest_sharers(DEVICE, NO_USE, [whole], wanted, limit=price((whole.victim,))) is None
