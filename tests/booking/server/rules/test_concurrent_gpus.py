from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.rules.concurrent_gpus import concurrent_gpus
from tests.fakes.objects import A100, A6000
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case

FOUR = Limits(max_concurrent_gpus=4)
BOOKED = (
    a_record(day(0), day(3), count=2),
    a_record(day(3), day(5), count=1, model=A6000, id="b-two"),
    a_record(day(1), day(9), count=4, id="b-three", cancelled=day(0)),
)


def test_bookings_of_all_models_count_at_each_instant_and_not_in_total() -> None:
    assert concurrent_gpus(a_case(day(1), day(5), count=2, history=BOOKED, limits=FOUR)) is None
    violation = concurrent_gpus(a_case(day(1), day(5), count=3, history=BOOKED, limits=FOUR))
    assert violation
    assert (violation.rule, violation.limit, violation.actual) == ("too-many-gpus-at-a-time", 4, 5)
    assert violation.earliest_start == day(3)
    assert "in addition to the 2 of your other bookings" in violation.message


def test_from_the_earliest_start_the_whole_length_is_within_the_limit() -> None:
    violation = concurrent_gpus(a_case(day(1), day(5), count=4, history=BOOKED, limits=FOUR))
    assert violation
    assert violation.earliest_start == day(5)


def test_the_earliest_start_is_the_end_of_a_booking_that_is_not_over_yet() -> None:
    past = a_record(day(-9), day(-8), count=1, id="b-past")
    violation = concurrent_gpus(a_case(day(1), day(5), count=3, history=(past, *BOOKED), limits=FOUR))
    assert violation
    assert violation.earliest_start == day(3)


def test_the_earliest_start_is_not_before_the_one_that_is_asked_for() -> None:
    long, short = a_record(day(0), day(9), count=1), a_record(day(3), day(5), count=3, id="b-short")
    violation = concurrent_gpus(a_case(day(2), day(4), count=2, history=(long, short), limits=FOUR))
    assert violation
    assert violation.earliest_start == day(5)


def test_more_than_the_limit_alone_has_no_earliest_start() -> None:
    violation = concurrent_gpus(a_case(count=5, limits=FOUR))
    assert violation
    assert violation.earliest_start is None
    assert "beside" not in violation.message


def test_without_a_limit_any_number_is_allowed() -> None:
    assert concurrent_gpus(a_case(day(1), day(5), count=400, history=BOOKED)) is None


def test_a_booking_that_starts_soon_enough_may_exceed_the_limit() -> None:
    limits = Limits(max_concurrent_gpus=4, spontaneous=Duration(days=1))
    assert concurrent_gpus(a_case(day(1), count=9, limits=limits)) is None


def test_giving_back_gpus_breaks_no_limit() -> None:
    mine = a_record(day(1), day(9), count=6, id="b-mine")
    assert concurrent_gpus(a_case(day(1), day(8), count=5, changing=mine, limits=FOUR)) is None
    assert concurrent_gpus(a_case(day(1), day(10), count=5, changing=mine, limits=FOUR))


def test_a_past_overlap_with_a_running_booking_does_not_count() -> None:
    mine = a_record(day(-5), day(2), count=2, id="b-mine")
    over = a_record(day(-5), day(-1), count=4, id="b-over", released=day(-1))
    longer = a_case(day(-5), day(3), count=2, history=[over], changing=mine, limits=FOUR)
    assert concurrent_gpus(longer) is None
    still = a_record(day(-5), day(1), count=4, id="b-still")
    assert concurrent_gpus(a_case(day(-5), day(3), count=2, history=[still], changing=mine, limits=FOUR))


def test_a_span_that_is_over_is_not_counted() -> None:
    assert concurrent_gpus(a_case(day(-5), day(-3), count=9, limits=FOUR)) is None


def test_shares_count_as_parts_of_a_gpu() -> None:
    half = {"memory": 40_000, "memories": {A100: 80_000}}
    halves = [a_record(day(0), day(9), id=f"b-{number}", memory=40_000) for number in range(7)]
    assert concurrent_gpus(a_case(history=halves, limits=FOUR, **half)) is None
    halves.append(a_record(day(0), day(5), id="b-last", memory=40_000))
    violation = concurrent_gpus(a_case(history=halves, limits=FOUR, **half))
    assert violation
    assert (violation.limit, violation.actual, violation.earliest_start) == (4, "4.5", day(5))
    assert "this asks for 0.5 in addition to the 4 of" in violation.message
    # Where nobody knows what its GPUs offer, a share counts as a whole one.
    assert concurrent_gpus(a_case(history=halves[:4], limits=FOUR, memory=40_000))
