import pytest

from booking.durations import Duration
from booking.policy.limits import Limits, limit_values, zone_of

DAY = Duration(days=1)


def test_the_limits_are_the_manuals_unless_somebody_says_otherwise() -> None:
    limits = Limits()
    assert (limits.cooldown, limits.shortest, limits.longest) == (Duration(days=14), DAY, Duration(days=14))
    assert (limits.max_active, limits.max_planned, limits.max_live) == (1, 1, 1)
    assert (
        limits.horizon
        is limits.granularity
        is limits.max_gpus_per_booking
        is limits.max_concurrent_gpus
        is None
    )


@pytest.mark.parametrize(
    "limits",
    [
        {"cooldown": Duration(days=36526)},
        {"shortest": Duration()},
        {"shortest": Duration(days=3), "longest": Duration(days=2)},
        {"shortest": Duration(seconds=3 * 86400), "longest": Duration(days=2)},
        {"longest": Duration(days=1_000_000)},
        {"max_active": 0},
        {"max_planned": 0},
        {"max_gpus_per_booking": -1},
        {"buffer": -1},
        {"granularity": Duration(days=2)},
        {"granularity": Duration(seconds=7000)},
        {"granularity": Duration()},
    ],
)
def test_limits_that_nobody_could_keep_are_refused(limits: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=rf"The policy's .*{next(iter(limits)).replace('longest', '')}"):
        Limits(**limits)


def test_several_at_a_time_bound_what_somebody_ever_has() -> None:
    assert Limits(max_active=2, max_planned=3).max_live == 4
    assert Limits(scope="model").max_live is None, "a user may have that many of each"


def test_programs_get_lengths_by_iso_8601() -> None:
    found = limit_values(Limits(horizon=Duration(days=90), may_extend=False))
    assert found["cooldown"] == "P14D"
    assert found["tolerance"] == "PT5M"
    assert found["horizon"] == "P90D"
    assert found["max_gpus_per_booking"] is None
    assert found["may_extend"] is False


@pytest.mark.parametrize(
    "name", ["Europe/Stokholm", "../../etc/passwd", "", "/etc/localtime", "x" * 5000, "\0"]
)
def test_a_zone_that_there_is_not_is_refused_with_a_message(name: str) -> None:
    with pytest.raises(ValueError, match=r"The zone .* is not known"):
        zone_of(name)
