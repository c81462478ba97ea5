"""How long to wait after failures in a row."""

import pytest

from cluster.decide.exponential_backoff import exponential_backoff


@pytest.mark.parametrize(
    ("first", "longest", "pauses"),
    [
        (1.0, 60.0, [1, 2, 4, 8, 16, 32, 60, 60]),
        (10.0, 60.0, [10, 20, 40, 60, 60]),
        (0.5, 30.0, [0.5, 1, 2, 4, 8, 16, 30, 30]),
        (0.1, 5.0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]),
    ],
)
def test_each_failure_doubles_the_pause_up_to_the_longest(
    first: float, longest: float, pauses: list[float]
) -> None:
    numbers = range(1, len(pauses) + 1)
    assert [exponential_backoff(number, first=first, longest=longest) for number in numbers] == pauses


def test_failures_may_continue_for_days() -> None:
    assert exponential_backoff(100_000, first=0.1, longest=60.0) == 60
