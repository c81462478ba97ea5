"""Law L6: with a clock that is wrong nothing is decided."""

from datetime import timedelta

import pytest

from cluster.kube.clock_skew import clock_skew_reason


@pytest.mark.parametrize("seconds", [None, 0, 30, -30])
def test_a_nearly_right_clock_is_no_unready_reason(seconds: int | None) -> None:
    difference = None if seconds is None else timedelta(seconds=seconds)

    assert clock_skew_reason(lambda: difference)() is None


@pytest.mark.parametrize("seconds", [31, -31, 86400])
def test_l6_a_wrong_clock_is_an_unready_reason(seconds: int) -> None:
    message = clock_skew_reason(lambda: timedelta(seconds=seconds))()

    assert message == "The clock of this machine and the API server's differ by more than 30 seconds."
