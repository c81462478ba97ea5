"""Who one is, what holds, and when GPUs could be had."""

from typing import Any

import pytest

from tests.booking.web.served import Served, about, problem, rules
from tests.fakes.objects import A100, A6000

SLOTS = "/api/v1/slots"


def slots(served: Served, **wish: Any) -> list[dict[str, Any]]:
    answer = served.ask("POST", SLOTS, json=wish)
    assert answer.status_code == 200, answer.text
    told: list[dict[str, Any]] = answer.get_json()["slots"]
    return told


def test_everybody_is_told_who_they_are_and_what_holds_for_them(served: Served) -> None:
    told = served.ask("GET", "/api/v1/me").get_json()
    assert (told["user"], told["name"], told["groups"]) == ("alice", "alice", [])
    assert told["is_administrator"] is False
    assert (told["limits"]["longest"], told["limits"]["cooldown"]) == ("P14D", "P14D")

    served.signing_in.administrators.add("alice")
    assert served.ask("GET", "/api/v1/me").get_json()["is_administrator"] is True
    assert served.ask("GET", "/api/v1/me", user="bob").get_json()["is_administrator"] is False


def test_the_policy_is_told_with_its_version_and_zone(served: Served) -> None:
    told = served.ask("GET", "/api/v1/policy").get_json()
    assert (told["version"], told["file_version"], told["zone"]) == ("v1", 1, "UTC")
    assert told["limits"]["longest"] == "P14D"


def test_a_slot_that_is_told_can_be_booked(served: Served) -> None:
    served.booked(user="bob", model=A6000, count=2)
    first, *_ = slots(served, model=A6000, count=2, duration="P2D")

    assert first["start"] >= "2026-03-04T09:00:00Z"
    booked = served.book(**{key: first[key] for key in ("model", "count", "topology", "start", "end")})
    assert booked.status_code == 201, booked.text


def test_no_slot_is_told_where_there_is_none_before_the_deadline(served: Served) -> None:
    served.booked(user="bob", model=A6000, count=2)
    wish = {"model": A6000, "count": 2, "duration": "P2D"}
    told = problem(served.ask("POST", SLOTS, json=wish | {"deadline": "2026-03-05T09:00:00Z"}), 422)
    assert rules(told) == ["after-the-deadline", "capacity"]
    assert slots(served, **wish, deadline="2026-03-20T09:00:00Z")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("model", each) for each in (None, 1, "", "x" * 300, "\x00")),
        *(("duration", each) for each in (None, "two days", "P1M", 2, "-P1D")),
        *(("count", each) for each in ("2", 1.5, 10**30)),
        *(("deadline", each) for each in ("tomorrow", "2026-03-05", 1)),
        *(("topology", each) for each in ("ring", 1)),
    ],
)
def test_a_wish_is_read_strictly(served: Served, field: str, value: Any) -> None:
    told = problem(served.ask("POST", SLOTS, json={"model": A100, "duration": "P1D"} | {field: value}), 400)
    assert set(about(told)) == {field}


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"model": "H200"}, "unknown-model"),
        ({"count": 0}, "count-below-one"),
        ({"count": 10**9}, "more-than-exist"),
        ({"namespace": "No Namespace"}, "not-a-namespace"),
        ({"duration": "P90D"}, "longest"),
    ],
)
def test_a_wish_that_no_instant_grants_is_refused(served: Served, fields: dict[str, Any], rule: str) -> None:
    body = {"model": A100, "duration": "P1D"} | fields
    assert rule in rules(problem(served.ask("POST", SLOTS, json=body), 422))


def test_slots_for_somebody_else_are_told_to_administrators(served: Served) -> None:
    body = {"model": A100, "duration": "P1D", "user": "bob"}
    problem(served.ask("POST", SLOTS, json=body), 403)
    served.signing_in.administrators.add("alice")
    assert slots(served, **body)


@pytest.mark.parametrize("address", [SLOTS, f"{SLOTS}/booking"])
def test_where_there_is_no_slot_it_is_told_what_would_be_accepted(served: Served, address: str) -> None:
    body = {"model": A6000, "duration": "P15D"}
    told = problem(served.ask("POST", address, json=body), 422)
    assert rules(told) == ["longest"]
    assert told["alternatives"][0]["why"] == "within-limits"
    assert told["alternatives"][0]["end"] == "2026-03-16T09:00:00Z"


def test_a_dry_run_of_the_earliest_slot_says_where_it_would_be_and_books_nothing(served: Served) -> None:
    served.booked(user="bob", model=A6000, count=2)
    body = {"model": A6000, "count": 2, "duration": "P2D"}
    answer = served.ask("POST", f"{SLOTS}/booking?dry_run=true", json=body)
    assert answer.status_code == 200, answer.text
    told = answer.get_json()
    assert (told["dry_run"], told["user"], told["start"]) == (
        True,
        "alice",
        slots(served, **body)[0]["start"],
    )
    assert served.stored == 1
    made = served.ask("POST", f"{SLOTS}/booking", json=body).get_json()
    assert {name: made[name] for name in ("start", "end", "nodes")} == {
        name: told[name] for name in ("start", "end", "nodes")
    }
    refused = served.ask("POST", f"{SLOTS}/booking?dry_run=true", json=body | {"duration": "P15D"})
    assert "longest" in rules(problem(refused, 422))
