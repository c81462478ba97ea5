"""Which GPUs are best linked with each other. Pure.

Sets are ranked by the links among their GPUs and with those that the container has already, then by the links
that remain among the other GPUs, then by their order. With up to ``EXACT`` GPUs to choose from, the answer is
optimal, in a time that does not depend on the links: every set of one half of the GPUs is combined with every
set of the other half, and sums of lists give the worth of each pair. Beyond that the search is greedy: it
starts once from every GPU and adds the one that gains most.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations
from math import gcd
from operator import add
from typing import Final, NamedTuple

from deviceplugin.allocation.link_scores import Scores

EXACT: Final = 16

Positions = tuple[int, ...]
"""Positions of GPUs, ascending."""


class Worth(NamedTuple):
    """The worth of a set as one number: the sum over its GPUs and over its pairs of GPUs."""

    alone: list[int]
    pairs: list[list[int]]

    def of(self, positions: Iterable[int]) -> int:
        """The worth of this set."""
        chosen = tuple(positions)
        return sum(self.alone[one] for one in chosen) + sum(
            self.pairs[one][other] for one, other in combinations(chosen, 2)
        )


class _State(NamedTuple):
    """A set of the first half, and its worth with every set of the second half."""

    chosen: Positions
    worth: int
    with_second: list[list[int]]
    """Without ``worth``: by the size of the set of the second half, each in the order of ``_sets``."""


def best_effort(scores: Scores, free: Sequence[str], taken: frozenset[str], count: int) -> Sequence[str]:
    """``count`` of the free GPUs (all if there are fewer), in their order."""
    if count >= len(free):
        return free
    if not any(scores.get(gpu) for gpu in free):
        return free[:count]
    worth = _worth(scores, free, taken)
    positions = exactly(worth, count) if len(free) <= EXACT else nearly(worth, count)
    return [free[position] for position in positions]


def exactly(worth: Worth, count: int) -> Positions:
    """The positions of the best set of this size; of equal ones the first in the order of positions."""
    half = len(worth.alone) // 2
    size = len(worth.alone) - half
    states = [_State((), 0, _second_half(worth, half))]
    for position in range(half):
        states = _with_and_without(states, position, worth, half=half, count=count)
    best: tuple[int, Positions] | None = None
    for chosen, base, with_second in states:
        sums = with_second[count - len(chosen)]
        most = max(sums)
        if best is None or base + most > best[0]:
            mask = _sets(size)[count - len(chosen)][sums.index(most)]
            best = (
                base + most,
                (*chosen, *(half + position for position in range(size) if mask >> position & 1)),
            )
    return best[1] if best else ()


def nearly(worth: Worth, count: int) -> Positions:
    """A good set of this size: the best of those that grow greedily from one GPU."""
    grown = [_grown(worth, position, count) for position in range(len(worth.alone))]
    return max(grown, key=worth.of, default=())


def _worth(scores: Scores, free: Sequence[str], taken: frozenset[str]) -> Worth:
    """The worth, highest for the best set.

    The links that a set breaks are those of its GPUs to all free ones, less twice those among each other. So
    they count by GPU and by pair, too, and one link inside the set outweighs all that it may break.
    """
    of = [scores.get(one, {}) for one in free]
    unit = gcd(*(link for links in of for link in links.values())) or 1  # adding small numbers is faster
    among = [[links.get(other, 0) // unit for other in free] for links in of]
    to_taken = [sum(links.get(other, 0) for other in taken) // unit for links in of]
    outweighs = 1 + sum(map(sum, among)) // 2
    alone = [outweighs * own - sum(links) for own, links in zip(to_taken, among, strict=True)]
    return Worth(alone, [[(outweighs + 2) * links for links in row] for row in among])


@cache
def _sets(size: int) -> tuple[tuple[int, ...], ...]:
    """The sets of ``size`` positions as bit masks: by their own size, each in the order of positions."""
    return tuple(
        tuple(sum(1 << position for position in one) for one in combinations(range(size), chosen))
        for chosen in range(size + 1)
    )


def _sums(row: Sequence[int]) -> list[int]:
    """The sum of each set of positions, in the order of masks."""
    sums = [0]
    for value in row:
        sums += [value + before for before in sums]
    return sums


def _by_size(worths: Sequence[int], size: int) -> list[list[int]]:
    return [[worths[mask] for mask in of_size] for of_size in _sets(size)]


def _second_half(worth: Worth, half: int) -> list[list[int]]:
    """The worth of each set of the second half by itself."""
    sums = [0]
    for position in range(half, len(worth.alone)):
        more = map(add, sums, _sums(worth.pairs[position][half:position]))
        sums += [worth.alone[position] + gained for gained in list(more)]
    return _by_size(sums, len(worth.alone) - half)


def _with_and_without(
    states: Iterable[_State], position: int, worth: Worth, *, half: int, count: int
) -> list[_State]:
    """Each set of the first half with this position and without it, if ``count`` can still be met."""
    pairs = worth.pairs[position]
    size = len(worth.alone) - half
    links = _by_size(_sums(pairs[half:]), size)
    left = half - position - 1
    after = []
    for chosen, base, with_second in states:
        more, less = count - len(chosen) - 1, max(count - len(chosen) - 1 - left, 0)
        if more >= 0 and less <= size:
            gained = base + worth.alone[position] + sum([pairs[other] for other in chosen])
            sums = [
                list(map(add, before, gain)) if less <= missing <= more else before
                for missing, (before, gain) in enumerate(zip(with_second, links, strict=True))
            ]
            after.append(_State((*chosen, position), gained, sums))
        if count - len(chosen) - left <= size:
            after.append(_State(chosen, base, with_second))
    return after


def _grown(worth: Worth, first: int, count: int) -> Positions:
    gains = [alone + links for alone, links in zip(worth.alone, worth.pairs[first], strict=True)]
    chosen = [first]
    left = [position for position in range(len(gains)) if position != first]
    while len(chosen) < count:
        best = max(left, key=gains.__getitem__)
        left.remove(best)
        chosen.append(best)
        gains = list(map(add, gains, worth.pairs[best]))
    return tuple(sorted(chosen))
