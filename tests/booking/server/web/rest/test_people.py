"""The user's own name and limits, the policy, and the slots in which GPUs are free."""

from typing import Any

import pytest

from tests.booking.server.web.served import Served, about, problem, rules
from tests.fakes.objects import A100, A6000

SLOTS = "/api/v1/slots"


def slots(served: Served, **fields: Any) -> list[dict[str, Any]]:
    answer = served.ask("POST", SLOTS, json=fields)
    assert answer.status_code == 200, answer.text
    body: list[dict[str, Any]] = answer.get_json()["slots"]
    return body


def test_everybody_sees_their_own_name_role_and_limits(served: Served) -> None:
    body = served.ask("GET", "/api/v1/me").get_json()
    assert (body["user"], body["name"], body["groups"]) == ("alice", "alice", [])
    assert body["is_administrator"] is False
    assert (body["limits"]["longest"], body["limits"]["cooldown"]) == ("P14D", "P14D")

    served.signing_in.administrators.add("alice")
    assert served.ask("GET", "/api/v1/me").get_json()["is_administrator"] is True
    assert served.ask("GET", "/api/v1/me", user="bob").get_json()["is_administrator"] is False


def test_the_policy_is_shown_with_its_version_and_zone(served: Served) -> None:
    body = served.ask("GET", "/api/v1/policy").get_json()
    assert (body["version"], body["file_version"], body["zone"]) == ("v1", 1, "UTC")
    assert body["limits"]["longest"] == "P14D"
    for spelling in (A6000, A6000.replace("-", " ")):
        body = served.ask("GET", "/api/v1/policy", query_string={"model": spelling}).get_json()
        assert body["limits"]["longest"] == "P7D"


def test_a_slot_that_is_offered_can_be_booked(served: Served) -> None:
    served.booked(user="bob", model=A6000, count=2)
    first, *_ = slots(served, model=A6000, count=2, duration="P2D")

    assert first["start"] >= "2026-03-04T09:00:00Z"
    booked = served.book(**{key: first[key] for key in ("model", "count", "topology", "start", "end")})
    assert booked.status_code == 201, booked.text


def test_a_request_without_a_slot_before_the_deadline_is_refused(served: Served) -> None:
    served.booked(user="bob", model=A6000, count=2)
    body = {"model": A6000, "count": 2, "duration": "P2D"}
    refusal = problem(served.ask("POST", SLOTS, json=body | {"deadline": "2026-03-05T09:00:00Z"}), 422)
    assert rules(refusal) == ["after-the-deadline", "capacity"]
    assert slots(served, **body, deadline="2026-03-20T09:00:00Z")


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
def test_a_slot_request_is_read_strictly(served: Served, field: str, value: Any) -> None:
    refusal = problem(
        served.ask("POST", SLOTS, json={"model": A100, "duration": "P1D"} | {field: value}), 400
    )
    assert set(about(refusal)) == {field}


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
def test_a_slot_request_that_no_instant_can_satisfy_is_refused(
    served: Served, fields: dict[str, Any], rule: str
) -> None:
    body = {"model": A100, "duration": "P1D"} | fields
    assert rule in rules(problem(served.ask("POST", SLOTS, json=body), 422))


def test_slots_for_another_user_are_shown_to_administrators_only(served: Served) -> None:
    body = {"model": A100, "duration": "P1D", "user": "bob"}
    problem(served.ask("POST", SLOTS, json=body), 403)
    served.signing_in.administrators.add("alice")
    assert slots(served, **body)


@pytest.mark.parametrize("address", [SLOTS, f"{SLOTS}/booking"])
def test_a_refusal_for_lack_of_a_slot_offers_what_would_be_accepted(served: Served, address: str) -> None:
    body = {"model": A6000, "duration": "P15D"}
    refusal = problem(served.ask("POST", address, json=body), 422)
    assert rules(refusal) == ["longest"]
    assert refusal["alternatives"][0]["why"] == "within-limits"
    assert refusal["alternatives"][0]["end"] == "2026-03-16T09:00:00Z"


def test_a_dry_run_of_the_earliest_slot_shows_the_slot_and_books_nothing(served: Served) -> None:
    served.booked(user="bob", model=A6000, count=2)
    body = {"model": A6000, "count": 2, "duration": "P2D"}
    answer = served.ask("POST", f"{SLOTS}/booking?dry_run=true", json=body)
    assert answer.status_code == 200, answer.text
    reply = answer.get_json()
    assert (reply["dry_run"], reply["user"], reply["start"]) == (
        True,
        "alice",
        slots(served, **body)[0]["start"],
    )
    assert served.stored == 1
    made = served.ask("POST", f"{SLOTS}/booking", json=body).get_json()
    assert {name: made[name] for name in ("start", "end", "nodes")} == {
        name: reply[name] for name in ("start", "end", "nodes")
    }
    refused = served.ask("POST", f"{SLOTS}/booking?dry_run=true", json=body | {"duration": "P15D"})
    assert "longest" in rules(problem(refused, 422))


def test_everybody_sees_by_which_names_they_are_known(served: Served) -> None:
    served.store.write(lambda writing: writing.email_set("alice", "Alice@example.org", served.clock.now()))
    body = served.ask("GET", "/api/v1/me").get_json()
    known = {each["source"]: each for each in body["known_as"]}
    assert [known[source]["names"] for source in ("kubernetes", "oidc", "jupyterhub", "maia")] == [
        ["alice"],
        ["alice"],
        ["alice"],
        ["alice@example.org"],
    ]
    assert (known["jupyterhub"]["labels"], known["jupyterhub"]["any_case"]) == (["alice"], True)
    assert body["notes"] == []


def test_somebody_whose_notebooks_are_another_users_learns_so(served: Served) -> None:
    served.tokens.names["MYoung-token"] = "MYoung"
    body = served.ask("GET", "/api/v1/me", user="MYoung").get_json()
    assert "is the user 'myoung' here, and not you" in body["notes"][0]
