"""Booking by REST."""

from dataclasses import replace

import pytest

from tests.booking.server.web.served import BOOKINGS, Served, about, problem, rules
from tests.fakes.objects import A100

NOW = "2026-03-02T09:00:00Z"
GOOD = {"model": A100, "duration": "P1D"}


def test_a_booking_is_stored_and_its_address_returned(served: Served) -> None:
    answer = served.book(model=A100, duration="P2D")

    assert answer.status_code == 201
    body = answer.get_json()
    assert answer.headers["Location"] == f"{BOOKINGS}/{body['id']}"
    assert {key: value for key, value in body.items() if key not in {"nodes", "policy"}} == {
        "id": body["id"],
        "user": "alice",
        "state": "active",
        "model": A100,
        "count": 1,
        "topology": "any",
        "namespace": None,
        "start": NOW,
        "end": "2026-03-04T09:00:00Z",
        "created": NOW,
        "version": body["version"],
        "mirrored": True,
    }
    assert answer.headers["ETag"] == f'"{body["version"]}"'
    shown = served.ask("GET", answer.headers["Location"]).get_json()
    assert shown == {key: value for key, value in body.items() if key != "mirrored"}


def test_every_field_can_be_given(served: Served) -> None:
    answer = served.book(
        model="NVIDIA A100-SXM4-80GB",
        count=2,
        start="2026-03-10T09:00:00+01:00",
        end="2026-03-12T09:00:00+01:00",
        namespace="research",
        topology="single-node",
    )

    body = answer.get_json()
    assert (body["model"], body["count"], body["state"]) == (A100, 2, "planned")
    assert (body["start"], body["end"]) == ("2026-03-10T08:00:00Z", "2026-03-12T08:00:00Z")
    assert (body["namespace"], body["topology"]) == ("research", "single-node")


def test_null_counts_as_not_given(served: Served) -> None:
    answer = served.book(
        model=A100, duration="P1D", end=None, start=None, count=None, namespace=None, topology=None
    )

    assert answer.status_code == 201


def test_a_day_from_now_is_a_day_even_when_seconds_pass_between_reading_and_storing(served: Served) -> None:
    def slowly() -> None:
        served.clock.advance(2.5)

    client = served.client_of(replace(served.parts, unknown_capacity=slowly))
    answer = client.post(BOOKINGS, headers={"Authorization": "Bearer alice-token"}, json=GOOD)

    assert answer.status_code == 201, answer.text
    body = answer.get_json()
    assert (body["start"], body["end"]) == ("2026-03-02T09:00:02Z", "2026-03-03T09:00:00Z")


def test_a_dry_run_shows_what_would_be_stored_and_stores_nothing(served: Served) -> None:
    answer = served.book(query="?dry_run=true", model=A100, count=3, duration="PT36H")

    assert answer.status_code == 200
    assert {key: value for key, value in answer.get_json().items() if key != "nodes"} == {
        "dry_run": True,
        "user": "alice",
        "model": A100,
        "count": 3,
        "topology": "single-node",
        "namespace": None,
        "start": NOW,
        "end": "2026-03-03T21:00:00Z",
        "warnings": [],
    }
    assert served.stored == 0
    assert served.mirror.calls == []


def test_a_dry_run_works_while_nothing_can_be_booked(served: Served) -> None:
    served.not_guaranteed_reason = "The mirror rests."

    assert served.book(query="?dry_run=true", model=A100, duration="P1D").status_code == 200


def test_a_second_booking_is_refused_with_every_rule_that_it_breaks_and_the_earliest_start(
    served: Served,
) -> None:
    served.booked()
    refusal = problem(served.book(model=A100, duration="PT1H"), 422)

    assert rules(refusal) == ["no-active-overlap", "cooldown", "shortest"]
    cooldown = refusal["violations"][1]
    assert cooldown["field"] == "start"
    assert (cooldown["limit"], cooldown["earliest_start"]) == ("P14D", "2026-03-18T09:00:00Z")
    assert refusal["violations"][2]["field"] == "duration"
    assert refusal["violations"][2]["message"] in refusal["detail"]
    assert served.stored == 1


def test_a_refusal_names_the_earliest_start_at_which_the_request_would_be_accepted(served: Served) -> None:
    served.booked()
    refusal = problem(served.book(model=A100, duration="P2D"), 422)

    assert refusal["earliest_start"] == "2026-03-18T09:00:00Z"
    served.ask("POST", f"{BOOKINGS}/{served.ask('GET', BOOKINGS).get_json()['bookings'][0]['id']}/release")
    assert problem(served.book(model=A100, duration="P2D"), 422)["earliest_start"] == "2026-03-16T09:00:01Z"


def test_every_malformed_field_is_named_at_once(served: Served) -> None:
    refusal = problem(
        served.book(
            model=7, count="two", start="tomorrow", end=True, namespace=["a"], topology="ring", models=A100
        ),
        400,
    )

    assert about(refusal) == {
        "models": "unknown-field",
        "model": "malformed-field",
        "count": "malformed-field",
        "start": "malformed-field",
        "end": "malformed-field",
        "namespace": "malformed-field",
        "topology": "malformed-field",
    }
    messages = {violation["field"]: violation["message"] for violation in refusal["violations"]}
    assert messages["models"] == 'The field "models" is unknown: is model meant?'
    assert messages["count"] == 'The field count must be a whole number, not "two".'
    assert messages["topology"] == 'The field topology must be one of "any", "single-node", not "ring".'
    assert served.stored == 0


def test_the_rules_still_judge_the_fields_that_could_be_read(served: Served) -> None:
    served.booked()
    refusal = problem(served.book(model=A100, count=0.5, duration="P15D"), 400)

    assert rules(refusal) == ["malformed-field", "no-active-overlap", "cooldown", "longest"]
    assert "earliest_start" in refusal


def test_a_duration_is_judged_although_the_start_cannot_be_read(served: Served) -> None:
    refusal = problem(served.book(model=A100, start="9 o'clock", duration="P15D"), 400)
    other = problem(served.book(model=A100, start="9 o'clock", end="2026-03-30T09:00:00Z"), 400)

    assert rules(refusal) == ["malformed-field", "longest"]
    assert rules(other) == ["malformed-field"]


def test_end_and_duration_exclude_each_other(served: Served) -> None:
    refusal = problem(served.book(model=A100, end="2026-03-04T09:00:00Z", duration="P2D"), 422)

    assert about(refusal) == {"duration": "conflicting-fields"}


def test_a_duration_or_an_end_beyond_the_calendar_is_refused(served: Served) -> None:
    refusal = problem(served.book(model=A100, start="9999-12-31T00:00:00Z", duration="P2D"), 422)

    assert about(refusal)["duration"] == "too-far-ahead"
    refusal = problem(served.book(model=A100, duration="P99999W"), 422)
    assert about(refusal)["duration"] == "beyond-the-calendar"
    refusal = problem(served.book(model=A100, end="9999-12-31T23:59:59-01:00"), 422)
    assert about(refusal)["end"] == "beyond-the-calendar"


@pytest.mark.parametrize("name", ["\ud800", "a\nb", "\x00", "x" * 300, "<script>"])
def test_a_strange_field_name_does_no_harm(served: Served, name: str) -> None:
    refusal = problem(served.ask("POST", BOOKINGS, json=GOOD | {name: 1}), 400)

    assert rules(refusal) == ["unknown-field"]


def test_a_whole_number_that_is_too_large_is_refused_with_the_limit(served: Served) -> None:
    refusal = problem(served.book(model=A100, duration="P1D", count=10**12), 400)

    assert "at most 2147483647, not 1000000000000" in refusal["detail"]


class TestTheMirror:
    def test_the_answer_waits_until_the_change_is_in_the_cluster(self, served: Served) -> None:
        served.booked()

        assert served.mirror.calls == ["trigger", 1]

    def test_nothing_is_stored_while_the_mirror_is_unhealthy(self, served: Served) -> None:
        served.not_guaranteed_reason = "The bookings have not been written to the cluster yet."
        answer = served.book(model=A100, duration="P1D")

        refusal = problem(answer, 503)
        assert refusal["detail"].endswith("The bookings have not been written to the cluster yet.")
        assert int(answer.headers["Retry-After"]) > 0
        assert served.stored == 0

    def test_a_booking_that_is_not_in_the_cluster_in_time_is_stored_but_not_confirmed(
        self, served: Served
    ) -> None:
        served.mirror.writes = False
        answer = served.book(model=A100, duration="P1D")

        assert answer.status_code == 202
        body = answer.get_json()
        assert body["mirrored"] is False
        assert "not guaranteed" in body["note"]
        assert answer.headers["Location"] == f"{BOOKINGS}/{body['id']}"
        assert served.stored == 1

    def test_nothing_is_stored_before_the_nodes_are_read(self, served: Served) -> None:
        served.unknown_capacity = "The nodes of the cluster have not been read yet."

        problem(served.book(model=A100, duration="P1D"), 503)
        problem(served.book(query="?dry_run=true", model=A100, duration="P1D"), 503)
        assert served.stored == 0

    def test_a_malformed_request_is_refused_as_such_even_while_the_capacity_is_unknown(
        self, served: Served
    ) -> None:
        served.unknown_capacity = "The nodes of the cluster have not been read yet."

        assert rules(problem(served.book(model=A100, duration="P1D", count="x"), 400)) == ["malformed-field"]
