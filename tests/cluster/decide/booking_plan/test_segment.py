"""A stretch of load, and when it stays within a ceiling."""

import pytest

from cluster.decide.booking_plan.segment import LENGTH, Gaps, Segment, cut

_STEPS = Segment((0, 10, 12, 20, 25), (1, 3, 0, 2, 1))


@pytest.mark.parametrize(
    ("ceiling", "expected"),
    [
        (2, Gaps(until=10, longest=10, since=12)),
        (1, Gaps(until=10, longest=10, since=25)),
        (0, Gaps(until=0, longest=8, since=None)),
        (-1, Gaps(until=0, longest=0, since=None)),
    ],
)
def test_gaps_give_the_first_excess_the_longest_gap_and_the_gap_at_the_end(
    ceiling: int, expected: Gaps
) -> None:
    assert _STEPS.gaps(ceiling) == expected
    assert _STEPS.gaps(ceiling) == expected, "it is remembered as it was found"


@pytest.mark.parametrize(("length", "ceiling", "start"), [(10, 1, 0), (8, 0, 12), (1, 0, 12), (10, 2, 0)])
def test_the_first_gap_begins_at_the_first_time_within_that_is_long_enough(
    length: int, ceiling: int, start: int
) -> None:
    assert _STEPS.first_gap(length, ceiling) == start


def test_a_stretch_knows_its_highest_level() -> None:
    assert _STEPS.highest == 3


@pytest.mark.parametrize(("steps", "pieces"), [(1, 1), (2 * LENGTH - 1, 1), (2 * LENGTH, 2), (5 * LENGTH, 5)])
def test_steps_are_cut_into_stretches_of_a_length_and_none_is_lost(steps: int, pieces: int) -> None:
    times, levels = list(range(steps)), [at % 7 for at in range(steps)]
    found = list(cut(times, levels))
    assert len(found) == pieces
    assert all(len(each.times) < 2 * LENGTH for each in found)
    assert [at for each in found for at in each.times] == times
    assert [level for each in found for level in each.levels] == levels
