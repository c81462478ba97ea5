"""How many requests a user may send."""

from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from booking.server.web.problems import ProblemError
from booking.server.web.rate_limits import REMEMBERED, RateLimits
from cluster.fake.clock import FakeClock
from tests.booking.server.web.served import BOOKINGS, BURST, Served, problem


def test_a_user_over_the_limit_may_send_again_after_retry_after() -> None:
    clock = FakeClock()
    limits = RateLimits(clock, per_second=0.5, burst=3)
    for _ in range(3):
        limits.take("alice")
    with pytest.raises(ProblemError) as refused:
        limits.take("alice")
    wait = int(refused.value.headers["Retry-After"])
    assert wait == 2

    clock.advance(wait)
    limits.take("alice")
    with pytest.raises(ProblemError):
        limits.take("alice")


def test_a_flood_is_logged_once_until_it_has_paused() -> None:
    clock = FakeClock()
    limits = RateLimits(clock, per_second=1, burst=3)

    def flood() -> None:
        for _ in range(20):
            with suppress(ProblemError):
                limits.take("bob")

    with capture_logs() as lines:
        flood()
        clock.advance(1)
        flood()
        assert [line["client"] for line in lines] == ["bob"]
        clock.advance(3)
        flood()
        assert len(lines) == 2


def test_a_bucket_does_not_grow_while_no_requests_arrive() -> None:
    clock = FakeClock()
    limits = RateLimits(clock, per_second=10, burst=2)
    clock.advance(3600)
    limits.take("alice")
    limits.take("alice")
    with pytest.raises(ProblemError):
        limits.take("alice")


def test_the_limit_of_one_user_does_not_affect_others() -> None:
    limits = RateLimits(FakeClock(), per_second=1, burst=1)
    limits.take("alice")
    with pytest.raises(ProblemError):
        limits.take("alice")
    limits.take("bob")


def test_the_least_recent_users_are_forgotten_first() -> None:
    limits = RateLimits(FakeClock(), per_second=1, burst=1)
    limits.take("alice")
    for number in range(REMEMBERED - 1):
        limits.take(f"user-{number}")
    with pytest.raises(ProblemError):
        limits.take("alice")
    limits.take("bob")
    limits.take("user-0")


def test_too_many_requests_are_answered_with_the_time_of_the_next_attempt(served: Served) -> None:
    for _ in range(BURST):
        assert served.ask("GET", BOOKINGS).status_code == 200
    answer = served.ask("GET", BOOKINGS)
    refusal = problem(answer, 429)
    assert refusal["type"].endswith(":too-many-requests")
    assert int(answer.headers["Retry-After"]) >= 1

    assert served.ask("GET", BOOKINGS, user="bob").status_code == 200
    assert served.client.get("/api/v1").status_code == 200
    served.clock.advance(1)
    assert served.ask("GET", BOOKINGS).status_code == 200


def test_a_refused_request_counts_too(served: Served) -> None:
    for _ in range(BURST):
        problem(served.ask("GET", f"{BOOKINGS}?nonsense=1"), 400)
    problem(served.ask("GET", BOOKINGS), 429)
