"""What is free when, by REST."""

from typing import Any

import pytest

from tests.booking.web.served import AVAILABILITY, Served, about, problem, rules
from tests.fakes.objects import A100, A6000


def asked(served: Served, query: str = "") -> dict[str, Any]:
    answer = served.ask("GET", AVAILABILITY + query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.get_json()
    return told


def test_all_models_are_shown_for_the_next_four_weeks(served: Served) -> None:
    told = asked(served)

    assert (told["start"], told["end"]) == ("2026-03-02T09:00:00Z", "2026-03-30T09:00:00Z")
    assert [(model["model"], model["capacity"]) for model in told["models"]] == [(A100, 8), (A6000, 2)]
    (step,) = told["models"][0]["steps"]
    assert step == {"start": told["start"], "end": told["end"], "free": 8, "capacity": 8}


def test_bookings_of_everybody_are_subtracted(served: Served) -> None:
    served.booked(user="bob", count=3)
    told = asked(served, f"?model={A100}")

    (model,) = told["models"]
    assert [(step["start"], step["free"]) for step in model["steps"]] == [
        ("2026-03-02T09:00:00Z", 5),
        ("2026-03-04T09:00:00Z", 8),
    ]


def test_the_span_can_be_said(served: Served) -> None:
    told = asked(served, "?start=2026-03-10T00:00:00%2B01:00&end=2026-03-11T00:00:00Z")

    assert (told["start"], told["end"]) == ("2026-03-09T23:00:00Z", "2026-03-11T00:00:00Z")


def test_an_unknown_model_is_told_with_those_that_there_are(served: Served) -> None:
    told = problem(served.ask("GET", AVAILABILITY + "?model=H200"), 422)

    assert rules(told) == ["unknown-model"]
    assert A6000 in told["detail"]


def test_a_span_that_is_none_is_refused(served: Served) -> None:
    problem(served.ask("GET", AVAILABILITY + "?end=2026-03-01T00:00:00Z"), 422)
    problem(served.ask("GET", AVAILABILITY + "?start=9999-12-31T00:00:00Z"), 422)


def test_everything_that_is_wrong_with_the_query_is_told_at_once(served: Served) -> None:
    query = "?start=2026-03-10T00:00:00+01:00&end=tomorrow&models=all&model=a&model=b"
    told = problem(served.ask("GET", AVAILABILITY + query), 400)

    assert about(told) == {
        "start": "malformed-parameter",
        "end": "malformed-parameter",
        "model": "duplicated-parameter",
        "models": "unknown-parameter",
    }
    messages = {violation["field"]: violation["message"] for violation in told["violations"]}
    assert messages["start"].endswith('In a query a "+" is written %2B.')
    assert messages["models"].endswith("is model meant?")


@pytest.mark.parametrize("query", ["?model=%00", "?model=%FF", "?%FF=1", "?model=", "?start="])
def test_a_strange_query_does_no_harm(served: Served, query: str) -> None:
    problem(served.ask("GET", AVAILABILITY + query), 400 if query != "?model=%FF" else 422)


def test_before_the_nodes_are_read_nothing_is_shown(served: Served) -> None:
    served.unknown_capacity = "The nodes of the cluster have not been read yet."

    problem(served.ask("GET", AVAILABILITY), 503)


class TestNames:
    """Whose bookings they are is told by the policy's ``visibility``, as of the GPUs that are in use."""

    def bookers(self, served: Served, user: str) -> list[tuple[str, int]]:
        answer = served.ask("GET", f"{AVAILABILITY}?model={A100}", user=user)
        (model,) = answer.get_json()["models"]
        return [(each["user"], each["count"]) for each in model["bookings"]]

    def test_of_others_only_the_load_is_told(self, served: Served) -> None:
        served.booked(user="alice", count=1)
        served.booked(user="bob", count=3)
        assert self.bookers(served, "alice") == [("alice", 1)]
        assert self.bookers(served, "bob") == [("bob", 3)]

    def test_where_the_policy_shows_names_everybodys_are_told_with_their_span(self, served: Served) -> None:
        served.visibility = "names"
        served.booked(user="bob", count=3)
        (model,) = asked(served, f"?model={A100}")["models"]
        assert model["bookings"] == [
            {"user": "bob", "count": 3, "start": "2026-03-02T09:00:00Z", "end": "2026-03-04T09:00:00Z"}
        ]
        (other,) = asked(served, f"?model={A6000}")["models"]
        assert other["bookings"] == []
        (later,) = asked(served, f"?model={A100}&start=2026-03-04T09:00:00Z")["models"]
        assert later["bookings"] == []

    def test_an_administrator_is_told_them_in_any_case(self, served: Served) -> None:
        served.booked(user="bob", count=3)
        served.signing_in.administrators.add("alice")
        assert self.bookers(served, "alice") == [("bob", 3)]

    def test_the_bookings_themselves_stay_their_owners(self, served: Served) -> None:
        served.visibility = "names"
        his = served.booked(user="bob", namespace="secret-project")
        problem(served.ask("GET", f"/api/v1/bookings/{his}"), 404)
        problem(served.ask("GET", "/api/v1/bookings?user=bob"), 403)
        for path in (AVAILABILITY, "/api/v1/bookings"):
            answer = served.ask("GET", path).text
            assert his not in answer
            assert "secret-project" not in answer
