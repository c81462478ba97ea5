"""Booking through the real server: its own process, tokens by the API server, Booking objects."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster.kube.resources import BOOKINGS
from devcluster.demo.rest import Rest
from devcluster.product import Parts
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e


def test_one_of_two_simultaneous_requests_for_the_last_gpus_gets_them(alice: Person, bob: Person) -> None:
    with ThreadPoolExecutor(2) as pool:
        futures = [
            pool.submit(person.ask, model=A100, count=4, topology="any", duration="P1D")
            for person in (alice, bob)
        ]
        answers = [answer.result() for answer in futures]
    assert sorted(answer.status for answer in answers) == [201, 422]
    refused = next(answer for answer in answers if answer.is_refusal)
    assert [violation["rule"] for violation in refused.body["violations"]] == ["capacity"]
    assert refused.body["earliest_start"]


def test_everything_wrong_with_a_request_is_named_at_once_and_nothing_is_stored(
    alice: Person, playground: Playground
) -> None:
    before = playground.kube.list(BOOKINGS).items
    answer = alice.ask(
        model="NVIDIA-H900", count=10**9, start="2025-01-01T00:00:00Z", end="2020-01-01T00:00:00Z"
    )
    assert answer.is_refusal
    assert {"unknown-model", "starts-in-the-past", "ends-before-it-starts"} <= {
        violation["rule"] for violation in answer.body["violations"]
    }
    assert alice.rest.ask("GET", "/bookings").body["bookings"] == []
    assert playground.kube.list(BOOKINGS).items == before


def test_a_billion_gpus_are_refused_with_how_many_there_are(alice: Person) -> None:
    answer = alice.ask(model=A100, count=10**9, duration="P1D")
    assert answer.status == 422
    (violation,) = answer.body["violations"]
    assert violation["rule"] == "more-than-exist"
    assert "4" in str(violation["limit"])


def test_a_token_for_another_audience_is_of_no_use(alice: Person, parts: Parts) -> None:
    stranger = Rest(alice.rest.url, parts.people.token("alice"))
    assert stranger.ask("GET", "/bookings").status == 401
    assert Rest(alice.rest.url, "nonsense").ask("GET", "/bookings").status == 401


def test_nobody_sees_or_ends_somebody_elses_booking(alice: Person, bob: Person) -> None:
    booking = alice.book(1)
    assert bob.rest.show(booking).status == 404
    assert bob.rest.release(booking).status == 404
    assert alice.rest.show(booking).body["state"] == "active"


def test_a_dry_run_reports_the_outcome_and_stores_nothing(alice: Person, playground: Playground) -> None:
    before = playground.kube.list(BOOKINGS).items
    tried = alice.rest.ask("POST", "/bookings?dry_run=true", {"model": A100, "count": 1, "duration": "P1D"})
    assert tried.status == 200
    assert playground.kube.list(BOOKINGS).items == before
    assert alice.rest.ask("GET", "/bookings").body["bookings"] == []
