"""Bookings of shares by REST: booked, listed, changed, refused."""

import pytest

from booking.server.capacity.capacity import Capacity
from tests.booking.server.web.served import BOOKINGS, Served, problem
from tests.fakes.objects import A100, A6000

OFFERED = 80_000
SLICE = f"{A100}-MIG-1g.10gb"


@pytest.fixture
def shared(served: Served) -> Served:
    """Two A100s that can be shared; A6000s and slices that cannot."""
    served.capacity = Capacity(
        {A100: {"node-a": 2}, A6000: {"node-a": 2}, SLICE: {"node-b": 7}},
        memories={A100: OFFERED},
        unmeasured=frozenset({A6000}),
    )
    return served


def test_a_share_is_booked_listed_extended_and_given_back(shared: Served) -> None:
    body = shared.book(model=A100, memory=20_000, duration="P2D").get_json()
    assert (body["count"], body["memory"], body["nodes"]) == (
        1,
        20_000,
        [{"node": "node-a", "count": 1, "lanes": [1]}],
    )
    address = f"{BOOKINGS}/{body['id']}"
    (listed,) = shared.ask("GET", BOOKINGS).get_json()["bookings"]
    assert listed["memory"] == 20_000
    longer = shared.ask("PATCH", address, json={"end": "2026-03-05T09:00:00Z"}).get_json()
    assert (longer["memory"], longer["nodes"]) == (20_000, body["nodes"])
    (model,) = shared.ask("GET", f"/api/v1/availability?model={A100}").get_json()["models"]
    assert (model["memory"], model["steps"][0]["free"], model["bookings"][0]["memory"]) == (
        OFFERED,
        1,
        20_000,
    )
    assert shared.ask("POST", f"{address}/release").get_json()["state"] == "ended"
    shared.clock.advance(1)
    assert shared.book(user="bob", model=A100, count=2, duration="P2D").status_code == 201


def test_shares_of_several_people_that_fit_together_leave_the_other_gpu_whole(shared: Served) -> None:
    shared.tokens.names |= {f"{name}-token": name for name in ("carol", "dave")}
    for user in ("alice", "bob"):
        assert shared.book(user=user, model=A100, memory=40_000, duration="P2D").status_code == 201
    assert shared.book(user="carol", model=A100, duration="P2D").status_code == 201
    refused = problem(shared.book(user="dave", model=A100, memory=1, duration="P2D"), 422)
    assert [each["rule"] for each in refused["violations"]] == ["capacity"]
    assert "0 shares of 1 MiB of a GPU" in refused["violations"][0]["message"]


@pytest.mark.parametrize(
    ("wanted", "rule", "sentence"),
    [
        ({"memory": OFFERED + 1}, "more-memory-than-a-gpu-has", "each offers 78.1 GiB (80000 MiB) to shares"),
        ({"memory": 0}, "memory-below-one", "at least 1 MiB"),
        ({"memory": -5}, "memory-below-one", "at least 1 MiB"),
        ({"memory": 5, "model": SLICE}, "not-shared", "A MIG device is not shared"),
        ({"memory": 5, "model": A6000}, "not-shared", "their memory is not known"),
    ],
)
def test_an_impossible_share_is_refused_with_one_sentence(
    shared: Served, wanted: dict[str, object], rule: str, sentence: str
) -> None:
    refused = problem(shared.book(**{"model": A100, "duration": "P2D", **wanted}), 422)
    (violation,) = refused["violations"]
    assert (violation["rule"], violation["field"]) == (rule, "memory")
    assert sentence in violation["message"]


def test_gpus_of_which_not_all_are_shared_are_booked_whole_only(shared: Served) -> None:
    shared.capacity = Capacity({A100: {"node-a": 2}})
    (violation,) = problem(shared.book(model=A100, memory=5, duration="P2D"), 422)["violations"]
    assert violation["message"].startswith(f"Not all GPUs of model {A100} can be booked in shares here")


def test_the_earliest_share_is_found_and_booked(shared: Served) -> None:
    shared.book(user="bob", model=A100, count=2, duration="P2D")
    wanted = {"model": A100, "memory": 20_000, "duration": "P1D"}
    (first, *_) = shared.ask("POST", "/api/v1/slots", json=wanted).get_json()["slots"]
    assert (first["memory"], first["start"]) == (20_000, "2026-03-04T09:00:00Z")
    booked = shared.ask("POST", "/api/v1/slots/booking", json=wanted).get_json()
    assert (booked["memory"], booked["start"]) == (20_000, first["start"])


def test_a_share_at_risk_is_shown_with_what_would_be_accepted_instead(shared: Served) -> None:
    address = f"{BOOKINGS}/{shared.booked(memory=60_000, start='2026-03-05T09:00:00Z')}"
    shared.capacity = Capacity(
        {A100: {"node-a": 2}, A6000: {"node-b": 1}}, memories={A100: 50_000, A6000: 70_000}
    )
    body = shared.ask("GET", address).get_json()
    assert body["at_risk"]
    assert [(each["model"], each["memory"], each["why"]) for each in body["alternatives"]][:1] == [
        (A6000, 60_000, "other-model")
    ]


def test_a_share_becomes_larger_where_it_has_room_and_never_whole(shared: Served) -> None:
    alices, bobs = shared.booked(memory=30_000), shared.booked(user="bob", memory=30_000)
    address = f"{BOOKINGS}/{alices}"
    assert shared.ask("PATCH", address, json={"memory": 50_000}).get_json()["memory"] == 50_000
    for memory, rule in (
        (50_001, "capacity"),
        (OFFERED + 1, "more-memory-than-a-gpu-has"),
        (0, "memory-below-one"),
    ):
        (violation,) = problem(shared.ask("PATCH", address, json={"memory": memory}), 422)["violations"]
        assert violation["rule"] == rule
    assert shared.ask("PATCH", address, json={"memory": 10_000}).get_json()["memory"] == 10_000
    shared.ask("POST", f"{BOOKINGS}/{bobs}/release", user="bob")
    shared.clock.advance(60)
    shared.tokens.names["carol-token"] = "carol"
    whole = f"{BOOKINGS}/{shared.booked(user='carol')}"
    refused = problem(shared.ask("PATCH", whole, user="carol", json={"memory": 10_000}), 422)
    assert [each["rule"] for each in refused["violations"]] == ["another-kind"]
