"""``evaluate`` compared with a naive oracle that was written from the text of the rules, and is slow.

Everything lies on whole hours, around the nights on which Stockholm's clocks are changed.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.alternatives import MOST
from booking.server.evaluation.evaluate import Decision, evaluate
from booking.server.records import BookingRequest, Record
from tests.fakes.objects import A100, A6000
from tests.fakes.plain_capacity import plain_capacities
from tests.fakes.records import a_record

HOUR = timedelta(hours=1)
THERE = Capacity({A100: {"n0": 2, "n1": 1}, A6000: {"n0": 2}})
NOWS = st.sampled_from(
    [
        datetime(2026, 3, 27, 9, tzinfo=UTC),
        datetime(2026, 10, 23, 9, tzinfo=UTC),
        datetime(2026, 6, 1, 9, tzinfo=UTC),
    ]
)
SPANS = st.builds(Duration, st.integers(0, 2), st.sampled_from([0, 0, 6 * 3600, 25 * 3600]))
LIMITS = st.builds(
    lambda shortest, longest, **more: Limits(
        shortest=min(shortest, longest, key=lambda span: span.nominal) or Duration(0, 3600),
        longest=max(shortest, longest, key=lambda span: span.nominal) or Duration(0, 3600),
        **more,
    ),
    SPANS,
    SPANS,
    cooldown=SPANS,
    horizon=st.none() | SPANS,
    granularity=st.sampled_from([None, Duration(1), Duration(0, 6 * 3600), Duration(0, 3600)]),
    max_active=st.integers(1, 2),
    max_planned=st.integers(1, 2),
    max_gpus_per_booking=st.none() | st.integers(0, 3),
    max_concurrent_gpus=st.none() | st.integers(0, 3),
    spontaneous=st.none() | SPANS,
    buffer=st.integers(0, 1),
    scope=st.sampled_from(["user", "model"]),
    zone=st.sampled_from(["UTC", "Europe/Stockholm"]),
)
BOOKED = st.lists(
    st.builds(
        dict,
        start=st.integers(-60, 60),
        length=st.integers(1, 40),
        count=st.integers(1, 2),
        user=st.sampled_from(["alice", "bob"]),
        model=st.sampled_from([A100, A100, A6000]),
        waived=st.booleans(),
        is_cancelled=st.sampled_from([False, False, True]),
    ),
    max_size=5,
)
CROWDED = st.lists(
    st.builds(
        dict,
        start=st.integers(-5, 60),
        length=st.integers(4, 50),
        count=st.integers(1, 3),
        user=st.just("bob"),
        model=st.sampled_from([A100, A100, A6000]),
        waived=st.just(False),
        is_cancelled=st.just(False),
    ),
    min_size=4,
    max_size=14,
)
"""Bookings of others, which leave little between them."""
REQUESTS = st.builds(
    dict,
    start=st.none() | st.integers(-2, 60),
    length=st.integers(-1, 70),
    count=st.integers(0, 4),
    model=st.sampled_from([A100, A6000]),
)


# --- the oracle ------------------------------------------------------------------------------------------


@lru_cache(maxsize=10_000)
def day_later(moment: datetime, days: int, zone: ZoneInfo) -> datetime:
    """The same wall clock so many days on, found by trying every minute of that day."""
    if not days:
        return moment
    wall = moment.astimezone(zone).replace(tzinfo=None) + timedelta(days=days)
    candidate = wall.replace(tzinfo=UTC) - timedelta(hours=15)
    while candidate.astimezone(zone).replace(tzinfo=None) < wall:
        candidate += timedelta(minutes=30)
    return candidate


def later(moment: datetime, span: Duration, zone: ZoneInfo) -> datetime:
    return day_later(moment, span.days, zone) + timedelta(seconds=span.seconds)


def on_grid(moment: datetime, step: Duration, zone: ZoneInfo) -> bool:
    wall = moment.astimezone(zone)
    return (wall.hour % (24 if step.days else step.seconds // 3600), wall.minute) == (0, 0)


def between(start: datetime, end: datetime, zone: ZoneInfo) -> Duration:
    """As many days as fit, and the rest."""
    days = 0
    while day_later(start, days + 1, zone) <= end:
        days += 1
    return Duration(days, int((end - day_later(start, days, zone)).total_seconds()))


def lasts_steps(start: datetime, end: datetime, step: Duration, zone: ZoneInfo) -> bool:
    rest = between(start, end, zone).seconds
    return rest % seconds(step) == 0


def busy(records: Sequence[Record], moment: datetime) -> int:
    return sum(each.count for each in records if not each.cancelled and each.start <= moment < each.end)


def expected(now: datetime, limits: Limits, records: Sequence[Record], wanted: dict[str, Any]) -> set[str]:
    """The rules that a request breaks, by their text."""
    zone = ZoneInfo(limits.zone)
    start, end, count, model = wanted["start"], wanted["end"], wanted["count"], wanted["model"]
    mine = [each for each in records if each.user == "alice" and not each.cancelled]
    counted = [each for each in mine if limits.scope == "user" or each.model == model]
    hours = [start + HOUR * n for n in range(int((end - start) / HOUR))]
    spontaneous = limits.spontaneous is not None and start <= later(now, limits.spontaneous, zone)
    step, total = limits.granularity, THERE.total(model)
    broken = {
        "no-active-overlap": sum(each.start <= now < each.end for each in counted) >= limits.max_active,
        "one-planned": sum(each.start > now for each in counted) >= limits.max_planned,
        "cooldown": bool(limits.cooldown)
        and any(start < later(each.end, limits.cooldown, zone) for each in counted if not each.waived),
        "shortest": start < end < later(start, limits.shortest, zone),
        "longest": end > later(start, limits.longest, zone),
        "beyond-the-horizon": limits.horizon is not None and start > later(now, limits.horizon, zone),
        "off-the-grid": step is not None and start < end and start != now and not on_grid(start, step, zone),
        "not-whole-steps": step is not None
        and start < end
        and not (lasts_steps(start, end, step, zone) or on_grid(end, step, zone)),
        "too-many-gpus": limits.max_gpus_per_booking is not None
        and count > limits.max_gpus_per_booking
        and not spontaneous,
        "too-many-gpus-at-a-time": limits.max_concurrent_gpus is not None
        and not spontaneous
        and any(busy(mine, hour) + count > limits.max_concurrent_gpus for hour in hours if hour >= now),
        "starts-in-the-past": start < now,
        "ends-before-it-starts": end <= start,
        "count-below-one": count < 1,
        "more-than-exist": count > total,
        "capacity": 1 <= count <= total
        and any(
            busy([each for each in records if each.model == model], hour) + count + limits.buffer > total
            for hour in hours
            if hour >= now
        ),
    }
    return {rule for rule, is_broken in broken.items() if is_broken}


# --- the comparison --------------------------------------------------------------------------------------


def stored(now: datetime, booked: list[dict[str, Any]]) -> list[Record]:
    return [
        a_record(
            now + HOUR * each["start"],
            now + HOUR * (each["start"] + each["length"]),
            id=f"b-{number}",
            count=each["count"],
            user=each["user"],
            model=each["model"],
            waived=each["waived"],
            cancelled=now if each["is_cancelled"] else None,
        )
        for number, each in enumerate(booked)
    ]


def in_time(now: datetime, wanted: dict[str, Any]) -> dict[str, Any]:
    start = now + HOUR * (wanted["start"] or 0)
    return {**wanted, "start": start, "end": start + HOUR * wanted["length"]}


def judged(
    now: datetime,
    limits: Limits,
    records: Sequence[Record],
    wanted: dict[str, Any],
    deadline: datetime | None = None,
) -> Decision:
    return evaluate(
        now,
        lambda _: limits,
        history=[each for each in records if each.user == "alice"],
        free_capacity_for=plain_capacities(records, THERE),
        capacity=THERE,
        request=BookingRequest(
            model=wanted["model"],
            start=wanted["start"],
            end=wanted["end"],
            count=wanted["count"],
            topology="any",
        ),
        deadline=deadline,
    )


@settings(max_examples=150)
@given(NOWS, LIMITS, BOOKED, REQUESTS)
def test_exactly_the_broken_rules_are_reported(
    now: datetime, limits: Limits, booked: list[dict[str, Any]], wanted: dict[str, Any]
) -> None:
    records, request = stored(now, booked), in_time(now, wanted)
    decision = judged(now, limits, records, request)
    assert {violation.rule for violation in decision.violations} == expected(now, limits, records, request)


@given(NOWS, LIMITS, BOOKED, REQUESTS)
def test_every_alternative_would_be_accepted(
    now: datetime, limits: Limits, booked: list[dict[str, Any]], wanted: dict[str, Any]
) -> None:
    records = stored(now, booked)
    decision = judged(now, limits, records, in_time(now, wanted))
    for each in decision.alternatives:
        other = {"start": each.start, "end": each.end, "count": each.count, "model": each.model}
        assert judged(now, limits, records, other).violations == ()
        assert expected(now, limits, records, other) == set()
    assert len({(each.start, each.end, each.count, each.model) for each in decision.alternatives}) == len(
        decision.alternatives
    )


HOURS_AHEAD = 96
"""Starts of the neighbourhood. Where a later one is possible there is no horizon, and there are many."""


def neighbourhood(
    now: datetime,
    limits: Limits,
    records: Sequence[Record],
    request: dict[str, Any],
    deadline: datetime | None,
) -> Iterator[dict[str, Any]]:
    """Bookings like a request, not more than it, that would be accepted.

    Of any model, 1 GPU up to as many as were requested, from any hour that is on a step, for whole steps:
    from the shortest booking up to one as long as was requested. Where less is refused, more is not tried.
    """
    for model in THERE.models:
        for start in (now + HOUR * n for n in range(HOURS_AHEAD)):
            for end in _ends(start, limits, request):
                found = 0
                for count in range(1, request["count"] + 1):
                    other = {"model": model, "start": start, "end": end, "count": count}
                    if (deadline is not None and end > deadline) or expected(now, limits, records, other):
                        break
                    found = count
                    yield other
                if not found:
                    break


def _ends(start: datetime, limits: Limits, request: dict[str, Any]) -> Iterator[datetime]:
    """From the shortest booking on, each a step longer."""
    zone = ZoneInfo(limits.zone)
    least = later(start, limits.shortest, zone)
    requested_end = later(start, between(request["start"], request["end"], zone), zone)
    last = None
    for end in (later(start, each, zone) for each in lengths(limits)):
        if last is not None and end > requested_end:
            return
        if end >= least and end != last:  # a step before the end of a day of 23 hours is that end
            yield end
            last = end


def lengths(limits: Limits) -> Iterator[Duration]:
    """Of whole steps: so many days, and less than a day more."""
    step = limits.granularity or Duration(0, 3600)
    for number in range(1, 1 + 4 * 86400 // seconds(step)):
        yield Duration(*divmod(number * seconds(step), 86400))


def seconds(span: Duration) -> int:
    return span.days * 86400 + span.seconds


def is_kept_on_any_day(limits: Limits) -> bool:
    """Whether whole steps are within the limits also on days on which no clock is changed."""
    return any(limits.shortest.nominal <= each.nominal <= limits.longest.nominal for each in lengths(limits))


@settings(max_examples=300)
@given(NOWS, LIMITS, BOOKED | CROWDED, REQUESTS, st.none() | st.integers(0, 90))
def test_three_alternatives_are_offered_wherever_three_similar_bookings_would_be_accepted(
    now: datetime, limits: Limits, booked: list[dict[str, Any]], wanted: dict[str, Any], hours: int | None
) -> None:
    assume(is_kept_on_any_day(limits))
    records, request = stored(now, booked), in_time(now, wanted)
    deadline = None if hours is None else now + HOUR * hours
    decision = judged(now, limits, records, request, deadline)
    is_answered = decision.is_accepted and (deadline is None or request["end"] <= deadline)
    for each in decision.alternatives:
        assert deadline is None or each.end <= deadline
    if is_answered or request["end"] <= request["start"] or len(decision.alternatives) == MOST:
        return
    like_it = [*islice(neighbourhood(now, limits, records, request, deadline), MOST)]
    assert len(like_it) < MOST, (like_it, decision.alternatives)


@given(NOWS, LIMITS, BOOKED, REQUESTS)
def test_a_booking_is_accepted_at_its_earliest_start_and_at_no_earlier_hour(
    now: datetime, limits: Limits, booked: list[dict[str, Any]], wanted: dict[str, Any]
) -> None:
    records, request = stored(now, booked), in_time(now, wanted)
    earliest = judged(now, limits, records, request).earliest_start
    zone = ZoneInfo(limits.zone)
    hour = now
    while hour < (earliest or now + 120 * HOUR):
        on_step = limits.granularity is None or hour == now or on_grid(hour, limits.granularity, zone)
        end = _end(hour, request, limits)
        if on_step and end is not None:
            assert expected(hour, limits, records, {**request, "start": hour, "end": end})
        hour += HOUR
    if earliest is not None:
        end = _end(earliest, request, limits)
        if end is not None:
            assert not expected(earliest, limits, records, {**request, "start": earliest, "end": end})


def _end(start: datetime, request: dict[str, Any], limits: Limits) -> datetime | None:
    """When such a booking ends, where it is as the limits want it: others are brought within them first."""
    zone = ZoneInfo(limits.zone)
    if request["end"] <= request["start"] or request["count"] < 1:
        return None
    end = later(start, between(request["start"], request["end"], zone), zone)
    step = limits.granularity
    fits = later(start, limits.shortest, zone) <= end <= later(start, limits.longest, zone)
    return end if fits and (step is None or lasts_steps(start, end, step, zone)) else None
