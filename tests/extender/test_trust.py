from datetime import timedelta

import pytest

from extender.trust import clock_obstacle, first_obstacle


@pytest.mark.parametrize("skew", [None, timedelta(0), timedelta(seconds=30), timedelta(seconds=-30)])
def test_a_clock_that_is_nearly_right_is_trusted(skew: timedelta | None) -> None:
    assert clock_obstacle(lambda: skew)() is None


@pytest.mark.parametrize("skew", [timedelta(seconds=31), timedelta(seconds=-31)])
def test_l6_a_clock_that_is_wrong_is_not_trusted(skew: timedelta) -> None:
    assert clock_obstacle(lambda: skew)() == (
        "The clock of this machine and the API server's differ by more than 30 seconds."
    )


def test_the_first_trouble_is_told() -> None:
    assert first_obstacle(lambda: None, lambda: "one", lambda: "two")() == "one"
    assert first_obstacle(lambda: None)() is None
