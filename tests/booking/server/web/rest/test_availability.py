"""Which GPUs are free when, by REST."""

from typing import Any

import pytest

from tests.booking.server.web.served import AVAILABILITY, Served, problem, rules
from tests.fakes.objects import A100, A6000


def availability(served: Served, query: str = "") -> dict[str, Any]:
    answer = served.ask("GET", AVAILABILITY + query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.get_json()
    return body


def test_all_models_are_shown_for_the_next_four_weeks(served: Served) -> None:
    body = availability(served)

    assert (body["start"], body["end"]) == ("2026-03-02T09:00:00Z", "2026-03-30T09:00:00Z")
    assert [(model["model"], model["capacity"]) for model in body["models"]] == [(A100, 8), (A6000, 2)]
    (step,) = body["models"][0]["steps"]
    assert step == {"start": body["start"], "end": body["end"], "free": 8, "capacity": 8}


def test_the_span_can_be_given(served: Served) -> None:
    body = availability(served, "?start=2026-03-10T00:00:00%2B01:00&end=2026-03-11T00:00:00Z")

    assert (body["start"], body["end"]) == ("2026-03-09T23:00:00Z", "2026-03-11T00:00:00Z")


def test_an_unknown_model_is_refused_with_the_models_that_exist(served: Served) -> None:
    refusal = problem(served.ask("GET", AVAILABILITY + "?model=H200"), 422)

    assert rules(refusal) == ["unknown-model"]
    assert A6000 in refusal["detail"]


def test_an_invalid_span_is_refused(served: Served) -> None:
    problem(served.ask("GET", AVAILABILITY + "?end=2026-03-01T00:00:00Z"), 422)
    problem(served.ask("GET", AVAILABILITY + "?start=9999-12-31T00:00:00Z"), 422)


@pytest.mark.parametrize("query", ["?model=%00", "?model=%FF", "?%FF=1", "?model=", "?start="])
def test_a_strange_query_does_no_harm(served: Served, query: str) -> None:
    problem(served.ask("GET", AVAILABILITY + query), 400 if query != "?model=%FF" else 422)


def test_nothing_is_shown_before_the_nodes_are_read(served: Served) -> None:
    served.unknown_capacity = "The nodes of the cluster have not been read yet."

    problem(served.ask("GET", AVAILABILITY), 503)


class TestNames:
    """The policy's ``visibility`` decides whose bookings are named, as it does for the GPUs in use."""

    def bookers(self, served: Served, user: str) -> list[tuple[str, int]]:
        answer = served.ask("GET", f"{AVAILABILITY}?model={A100}", user=user)
        (model,) = answer.get_json()["models"]
        return [(each["user"], each["count"]) for each in model["bookings"]]

    def test_only_the_load_of_others_is_shown(self, served: Served) -> None:
        served.booked(user="alice", count=1)
        served.booked(user="bob", count=3)
        assert self.bookers(served, "alice") == [("alice", 1)]
        assert self.bookers(served, "bob") == [("bob", 3)]

    def test_everybodys_bookings_are_shown_with_their_span_where_the_policy_shows_names(
        self, served: Served
    ) -> None:
        served.visibility = "names"
        served.booked(user="bob", count=3)
        (model,) = availability(served, f"?model={A100}")["models"]
        assert model["bookings"] == [
            {"user": "bob", "count": 3, "start": "2026-03-02T09:00:00Z", "end": "2026-03-04T09:00:00Z"}
        ]
        (other,) = availability(served, f"?model={A6000}")["models"]
        assert other["bookings"] == []
        (later,) = availability(served, f"?model={A100}&start=2026-03-04T09:00:00Z")["models"]
        assert later["bookings"] == []

    def test_an_administrator_always_sees_the_names(self, served: Served) -> None:
        served.booked(user="bob", count=3)
        served.signing_in.administrators.add("alice")
        assert self.bookers(served, "alice") == [("bob", 3)]

    def test_the_bookings_themselves_remain_hidden_from_others(self, served: Served) -> None:
        served.visibility = "names"
        his = served.booked(user="bob", namespace="secret-project")
        problem(served.ask("GET", f"/api/v1/bookings/{his}"), 404)
        problem(served.ask("GET", "/api/v1/bookings?user=bob"), 403)
        for path in (AVAILABILITY, "/api/v1/bookings"):
            answer = served.ask("GET", path).text
            assert his not in answer
            assert "secret-project" not in answer
