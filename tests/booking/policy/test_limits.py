from datetime import datetime, timedelta

import pytest

from booking.durations import LONGEST, Duration
from booking.policy.limits import Limits, is_grid, limit_values, zone_of

DAY = Duration(days=1)


def test_the_default_limits_are_the_manuals() -> None:
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
def test_limits_that_cannot_be_kept_are_refused(limits: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=rf"The policy's .*{next(iter(limits)).replace('longest', '')}"):
        Limits(**limits)


def test_limits_on_running_and_planned_bookings_bound_all_live_bookings() -> None:
    assert Limits(max_active=2, max_planned=3).max_live == 4
    assert Limits(scope="model").max_live is None, "a user may have that many of each"


def test_programs_get_lengths_in_iso_8601() -> None:
    found = limit_values(Limits(horizon=Duration(days=90), may_extend=False))
    assert found["cooldown"] == "P14D"
    assert found["tolerance"] == "PT5M"
    assert found["horizon"] == "P90D"
    assert found["max_gpus_per_booking"] is None
    assert found["may_extend"] is False


@pytest.mark.parametrize(
    "name", ["Europe/Stokholm", "../../etc/passwd", "", "/etc/localtime", "x" * 5000, "\0"]
)
def test_an_unknown_zone_is_refused_with_a_message(name: str) -> None:
    with pytest.raises(ValueError, match=r"The zone .* is not known"):
        zone_of(name)


@pytest.mark.parametrize(
    ("name", "lowest"),
    [
        ("max_active", 1),
        ("max_planned", 1),
        ("max_gpus_per_booking", 0),
        ("max_concurrent_gpus", 0),
        ("buffer", 0),
    ],
)
def test_an_amount_is_accepted_only_from_its_lowest_value_to_a_million(name: str, lowest: int) -> None:
    for amount in (lowest, 1_000_000):
        assert getattr(Limits(**{name: amount}), name) == amount
    for amount in (lowest - 1, 1_000_001):
        with pytest.raises(ValueError, match="The policy's") as refused:
            Limits(**{name: amount})
        assert str(refused.value) == (f"The policy's {name} is between {lowest} and 1000000, not {amount}.")


@pytest.mark.parametrize("name", ["cooldown", "longest", "tolerance", "farthest", "horizon", "spontaneous"])
def test_a_length_is_accepted_only_up_to_a_hundred_years(name: str) -> None:
    assert getattr(Limits(**{name: LONGEST}), name) == LONGEST
    with pytest.raises(ValueError, match="hundred") as refused:
        Limits(**{name: Duration(days=LONGEST.days, seconds=LONGEST.seconds + 1)})
    assert str(refused.value) == f"The policy's {name} is at most a hundred years."


@pytest.mark.parametrize(
    ("shortest", "longest", "accepted"),
    [
        (Duration(seconds=1), Duration(seconds=1), True),
        (Duration(days=1), Duration(seconds=86400), True),
        (Duration(seconds=86400), Duration(days=1), True),
        (Duration(), Duration(days=1), False),
        (Duration(seconds=2), Duration(seconds=1), False),
        (Duration(seconds=86401), Duration(days=1), False),
    ],
    ids=["one length", "a day and its hours", "the other way", "nothing", "too long", "by a second"],
)
def test_the_shortest_booking_is_longer_than_zero_and_at_most_the_longest(
    shortest: Duration, longest: Duration, *, accepted: bool
) -> None:
    if accepted:
        assert Limits(shortest=shortest, longest=longest).longest == longest
        return
    with pytest.raises(ValueError, match="shortest") as refused:
        Limits(shortest=shortest, longest=longest)
    assert str(refused.value) == (
        f"The policy's shortest booking ({shortest}) must be longer than zero and not over its longest"
        f" ({longest})."
    )


@pytest.mark.parametrize(
    ("span", "is_one"),
    [
        (Duration(days=1), True),
        (Duration(seconds=86400), True),
        (Duration(seconds=1), True),
        (Duration(seconds=3600), True),
        (Duration(seconds=900), True),
        (Duration(seconds=5 * 3600), False),
        (Duration(seconds=2 * 86400), False),
        (Duration(days=1, seconds=1), False),
        (Duration(days=7), False),
        (Duration(), False),
    ],
    ids=str,
)
def test_a_grid_is_a_day_or_divides_one(span: Duration, *, is_one: bool) -> None:
    assert is_grid(span) is is_one
    if is_one:
        assert Limits(granularity=span).granularity == span
    else:
        with pytest.raises(ValueError, match="granularity") as refused:
            Limits(granularity=span)
        assert str(refused.value) == (
            f"The policy's granularity ({span}) is P1D, or a time that divides a day: PT1H, PT15M."
        )


def test_all_mistakes_are_reported_at_once_amounts_first() -> None:
    with pytest.raises(ValueError, match="buffer") as refused:
        Limits(shortest=Duration(), buffer=-1, max_active=0)
    parts = str(refused.value).split("The policy's ")[1:]
    assert [part.split()[0] for part in parts] == ["max_active", "buffer", "shortest"]


def test_the_limits_have_a_time_zone() -> None:
    at = datetime(2026, 7, 1, tzinfo=Limits(zone="Europe/Stockholm").tz)
    assert at.utcoffset() == timedelta(hours=2)


def test_only_a_part_of_a_very_long_zone_name_is_shown() -> None:
    with pytest.raises(ValueError, match="is not known") as refused:
        zone_of("x" * 5000)
    assert str(refused.value) == (
        f"The zone '{'x' * 80}' is not known: write one of the IANA database, e.g. Europe/Stockholm."
    )
