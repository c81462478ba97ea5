"""Which part is the slowest to recover."""

from tests.long.churn.recoveries import Recovery, slowest


def recovery(part: str, seconds: float, floor: float) -> Recovery:
    return Recovery(part=part, seconds=seconds, floor=floor)


def test_the_slowest_part_is_reported_with_its_own_floor() -> None:
    quick = [recovery("extender", 2.0, floor=1.5), recovery("extender", 9.0, floor=8.0)]
    slow = [recovery("server", seconds, floor=seconds / 2) for seconds in (4.0, 6.0, 8.0)]
    assert slowest([*quick, *slow]) == (6.0, 3.0)


def test_a_recovery_is_reported_with_its_ratio_to_a_bare_process() -> None:
    assert str(recovery("extender", 3.0, floor=2.0)) == "extender: 3.0 s, 1.50 x a bare process (2.0 s)"
