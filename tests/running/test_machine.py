"""What a run says about its machine."""

import pytest

from tests.running.machine import describe, load, processor_times, steal


def test_stolen_time_is_read_beside_the_total_without_counting_guests_twice() -> None:
    stat = "cpu  100 0 50 800 10 0 5 35 100 0\ncpu0 1 2 3\n"
    assert processor_times(stat) == (35, 1000)


def test_a_kernel_that_counts_no_stolen_time_has_none() -> None:
    assert processor_times("cpu  100 0 50 850\n") == (0, 1000)


@pytest.mark.parametrize(
    ("until", "percent"), [((35, 1000), 0.0), ((85, 1500), 10.0), ((36, 1300), 0.3)], ids=str
)
def test_steal_is_a_share_of_the_time_between_two_readings(until: tuple[int, int], percent: float) -> None:
    assert steal((35, 1000), until) == percent


def test_a_run_begins_with_limits_load_and_the_clusters_that_are_alive() -> None:
    heads = [line.partition(": ")[0] for line in describe()]
    assert heads == ["machine", "load", "limits", "clusters alive"]


def test_the_processor_times_and_the_load_of_this_machine_can_be_read() -> None:
    stolen, ticks = processor_times()
    assert 0 <= stolen < ticks
    assert load() >= 0
