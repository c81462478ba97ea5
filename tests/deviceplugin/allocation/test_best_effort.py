"""Which GPUs are linked best, against all sets by brute force, and on machines as they are built."""

from collections.abc import Sequence
from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.allocation.best_effort import EXACT, best_effort
from deviceplugin.allocation.link_scores import Scores

NVLINK = 1200
SWITCH, BRIDGE, NODE, FAR = 50, 30, 20, 10


def linked(names: Sequence[str], scores: Sequence[int]) -> Scores:
    """The pairs of these GPUs, in order, with these scores."""
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    for (one, other), score in zip(combinations(names, 2), scores, strict=False):
        found[one][other] = found[other][one] = score
    return found


def gpus(count: int) -> list[str]:
    return [f"GPU-{number:02}" for number in range(count)]


def inside(scores: Scores, chosen: Sequence[str], taken: frozenset[str] = frozenset()) -> int:
    among = sum(scores[one].get(other, 0) for one, other in combinations(chosen, 2))
    return among + sum(scores[one].get(other, 0) for one in chosen for other in taken)


def torn(scores: Scores, chosen: Sequence[str], free: Sequence[str]) -> int:
    left = [one for one in free if one not in chosen]
    return sum(scores[one].get(other, 0) for one in chosen for other in left)


@st.composite
def choices(draw: st.DrawFn, most: int) -> tuple[Scores, list[str], frozenset[str], int]:
    names = gpus(draw(st.integers(3, most)))
    kinds = draw(st.sampled_from([[0], [FAR, NODE], [FAR, SWITCH, NVLINK], list(range(0, 1900, 10))]))
    pairs = len(names) * (len(names) - 1) // 2
    scores = linked(names, draw(st.lists(st.sampled_from(kinds), min_size=pairs, max_size=pairs)))
    taken = frozenset(draw(st.lists(st.sampled_from(names), max_size=2)))
    free = [name for name in names if name not in taken]
    return scores, free, taken, draw(st.integers(1, len(free)))


@given(choices(most=9))
def test_the_choice_is_optimal_for_up_to_sixteen_gpus(
    case: tuple[Scores, list[str], frozenset[str], int],
) -> None:
    scores, free, taken, count = case
    best = max(
        combinations(free, count),
        key=lambda one: (inside(scores, one, taken), -torn(scores, one, free)),
    )
    assert tuple(best_effort(scores, free, taken, count)) == best


@given(choices(most=9), st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_the_links(
    case: tuple[Scores, list[str], frozenset[str], int], random: Random
) -> None:
    scores, free, taken, count = case
    order = list(scores)
    random.shuffle(order)
    again = {one: {other: scores[one][other] for other in order if other in scores[one]} for one in order}
    assert best_effort(again, free, taken, count) == best_effort(scores, free, taken, count)


@given(choices(most=EXACT + 6))
def test_the_choice_is_the_requested_number_of_different_free_gpus_in_order(
    case: tuple[Scores, list[str], frozenset[str], int],
) -> None:
    scores, free, taken, count = case
    chosen = list(best_effort(scores, free, taken, count))
    assert len(chosen) == count
    assert chosen == [one for one in free if one in chosen]


@given(choices(most=EXACT))
def test_a_single_gpu_is_the_one_whose_links_matter_least_to_the_others(
    case: tuple[Scores, list[str], frozenset[str], int],
) -> None:
    scores, free, _, _ = case
    (chosen,) = best_effort(scores, free, frozenset(), 1)
    assert torn(scores, [chosen], free) == min(torn(scores, [one], free) for one in free)


def two_sockets(count: int, *, together: int) -> Scores:
    """So many GPUs on two processors, in groups of so many on one PCI switch."""

    def score(one: int, other: int) -> int:
        if one // together == other // together:
            return SWITCH
        return NODE if (one < count // 2) == (other < count // 2) else FAR

    return linked(gpus(count), [score(one, other) for one, other in combinations(range(count), 2)])


def test_gpus_are_chosen_by_their_links_to_those_the_container_already_has() -> None:
    scores = two_sockets(8, together=4)
    free = [name for name in gpus(8) if name != gpus(8)[6]]
    assert list(best_effort(scores, free, frozenset({gpus(8)[6]}), 2)) == [gpus(8)[4], gpus(8)[5]]


def test_four_gpus_of_a_cube_mesh_are_those_with_double_links() -> None:
    """Eight V100 as NVIDIA links them: not every pair is linked, and some pairs by two links."""
    links = {
        **dict.fromkeys([(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)], 200),
        **dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)], 100),
    }
    scores = linked(gpus(8), [links.get(pair, 0) for pair in combinations(range(8), 2)])
    chosen = best_effort(scores, gpus(8), frozenset(), 4)
    assert list(chosen) == gpus(4)
    assert inside(scores, chosen) == 3 * 200 + 3 * 100


def test_beyond_sixteen_the_choice_still_follows_the_links() -> None:
    scores = two_sockets(32, together=4)
    free = gpus(32)[1:]
    assert list(best_effort(scores, free, frozenset(), 4)) == gpus(32)[4:8]
    assert inside(scores, best_effort(scores, free, frozenset(), 16)) >= inside(scores, free[-16:])
