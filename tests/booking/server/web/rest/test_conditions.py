"""Versions of a booking, and requests that are sent twice."""

from typing import Any

import pytest

from booking.server.records import Place
from cluster.fake.clock import START
from tests.booking.server.web.served import BOOKINGS, Served, problem, rules
from tests.fakes.objects import A100

KEY = "Idempotency-Key"
GOOD = {"model": A100, "duration": "P2D"}
_SPAN = {"start": "2026-03-03T09:00:00Z", "end": "2026-03-05T09:00:00Z", "reason": "because"}
ADMINISTERED: dict[str, tuple[str, dict[str, Any]]] = {
    "maintenance": ("/api/v1/admin/blocks", {"node": "node-a", **_SPAN}),
    "exemption": ("/api/v1/admin/exemptions", {"user": "bob", "limits": {"longest": "P30D"}, **_SPAN}),
    "gpu-order": (
        "/api/v1/admin/gpu-orders",
        {"node": "node-a", "gpu": "0", "order": "clear", "reason": "r"},
    ),
    "eviction": ("/api/v1/admin/evictions", {"namespace": "research", "pod": "train-0", "reason": "r"}),
}


REQUESTS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "create": ("POST", BOOKINGS, GOOD, {"count": 2}),
    "create the earliest": ("POST", "/api/v1/slots/booking", GOOD, {"count": 2}),
    "change": ("PATCH", BOOKINGS + "/{}", {"end": "2026-03-06T09:00:00Z"}, {"count": 2}),
    "release": ("POST", BOOKINGS + "/{}/release", {}, {"reason": "r"}),
    "cancel": ("DELETE", BOOKINGS + "/{}", {}, {"reason": "r"}),
}
"""Method, path and body; and what differs in the body of another request."""


def tag(served: Served, booking: str) -> str:
    return served.ask("GET", f"{BOOKINGS}/{booking}").headers["ETag"]


class TestIfMatch:
    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("PATCH", "", {"end": "2026-03-05T09:00:00Z"}),
            ("PATCH", "?dry_run=true", {"end": "2026-03-05T09:00:00Z"}),
            ("POST", "/release", {}),
            ("DELETE", "", {}),
        ],
    )
    def test_a_stale_tag_changes_nothing(
        self, served: Served, method: str, path: str, body: dict[str, Any]
    ) -> None:
        booking = served.booked()
        fresh = tag(served, booking)
        bare = fresh.strip('"')
        for stale in ('"0"', f"W/{fresh}", f'"0{bare}"', '"a", "b"', bare, "nonsense", '"\xe4"', ""):
            answer = served.ask(method, f"{BOOKINGS}/{booking}{path}", json=body, headers={"If-Match": stale})
            refusal = problem(answer, 412)
            assert refusal["type"].endswith(":changed")
            assert answer.headers["ETag"] == tag(served, booking)
        assert served.stored == 1

    @pytest.mark.parametrize("fresh", ["{}", "*", '"0", {}', " {} "])
    def test_the_current_tag_lets_a_change_through(self, served: Served, fresh: str) -> None:
        booking = served.booked()
        seen = tag(served, booking)
        sent = {"If-Match": fresh.format(seen)}
        answer = served.ask("POST", f"{BOOKINGS}/{booking}/release", headers=sent)

        assert answer.status_code == 200
        assert answer.headers["ETag"] == tag(served, booking) != seen

    def test_moving_a_booking_in_the_plan_makes_no_tag_stale(self, served: Served) -> None:
        booking = served.booked()
        before = served.ask("GET", f"{BOOKINGS}/{booking}")
        served.store.write(lambda writing: writing.replan(booking, (Place("node-b", 1),)))
        after = served.ask("GET", f"{BOOKINGS}/{booking}")
        assert after.get_json()["nodes"] != before.get_json()["nodes"]
        assert after.headers["ETag"] == before.headers["ETag"]

        longer = {"end": "2026-03-05T09:00:00Z"}
        sent = {"If-Match": before.headers["ETag"]}
        assert served.ask("PATCH", f"{BOOKINGS}/{booking}", json=longer, headers=sent).status_code == 200
        problem(served.ask("PATCH", f"{BOOKINGS}/{booking}", json=longer, headers=sent), 412)

    def test_a_list_shows_the_tag_of_each_booking(self, served: Served) -> None:
        booking = served.booked()
        (listed,) = served.ask("GET", BOOKINGS).get_json()["bookings"]
        assert f'"{listed["version"]}"' == tag(served, booking)

    def test_no_tag_reveals_another_users_booking(self, served: Served) -> None:
        his = served.booked(user="bob")
        for sent in (f'"{served.store.records_ending_after(START)[0].version}"', '"2"', "*"):
            answer = served.ask("DELETE", f"{BOOKINGS}/{his}", headers={"If-Match": sent})
            problem(answer, 404)
            assert "ETag" not in answer.headers


class TestIdempotencyKey:
    def test_a_repeated_request_is_answered_again_and_done_once(self, served: Served) -> None:
        first = served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-1"})
        again = served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-1"})

        assert (first.status_code, again.status_code) == (201, 201)
        assert again.get_json() == first.get_json()
        assert again.headers["Location"] == first.headers["Location"]
        assert len(served.ask("GET", BOOKINGS).get_json()["bookings"]) == 1

    def test_the_same_key_with_another_body_is_refused(self, served: Served) -> None:
        served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-1"})
        before = served.stored
        refusal = problem(served.ask("POST", BOOKINGS, json=GOOD | {"count": 2}, headers={KEY: "k-1"}), 409)

        assert refusal["type"].endswith(":key-reused")
        assert served.stored == before

    @pytest.mark.parametrize(
        "refused", [{"duration": "P30D"}, {"duration": None}, {"count": 0}, {"model": "H200"}]
    )
    def test_the_key_of_a_refused_request_cannot_be_used_with_another_body_either(
        self, served: Served, refused: dict[str, Any]
    ) -> None:
        sent = {KEY: "k-1"}
        for _ in range(2):
            problem(served.ask("POST", BOOKINGS, json=GOOD | refused, headers=sent), 422)
        refusal = problem(served.ask("POST", BOOKINGS, json=GOOD, headers=sent), 409)

        assert refusal["type"].endswith(":key-reused")
        assert served.stored == 0
        assert served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-2"}).status_code == 201

    def test_neither_a_malformed_request_nor_a_dry_run_uses_up_its_key(self, served: Served) -> None:
        sent = {KEY: "k-1"}
        problem(served.ask("POST", BOOKINGS, json=GOOD | {"count": "two"}, headers=sent), 400)
        tried = served.ask("POST", f"{BOOKINGS}?dry_run=true", json=GOOD | {"duration": "P30D"}, headers=sent)
        assert tried.status_code == 422

        assert served.ask("POST", BOOKINGS, json=GOOD, headers=sent).status_code == 201

    @pytest.mark.parametrize("trouble", ["not_guaranteed_reason", "unknown_capacity"])
    @pytest.mark.parametrize("verb", REQUESTS)
    def test_a_repeated_request_is_answered_again_even_while_nothing_can_be_booked(
        self, served: Served, verb: str, trouble: str
    ) -> None:
        booking = served.booked(start=None if verb == "release" else "2026-03-03T09:00:00Z")
        method, path, body, other = REQUESTS[verb]
        at, who = path.format(booking), "alice" if "{}" in path else "bob"
        first = served.ask(method, at, json=body, headers={KEY: "k-1"}, user=who)
        setattr(served, trouble, "The bookings have not been written to the cluster for a while.")
        again = served.ask(method, at, json=body, headers={KEY: "k-1"}, user=who)

        assert again.status_code == first.status_code < 300
        assert again.get_json() == first.get_json()
        assert again.headers.get("Location") == first.headers.get("Location")
        problem(served.ask(method, at, json=body | other, headers={KEY: "k-1"}, user=who), 409)
        problem(served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-2"}, user=who), 503)

    def test_a_key_belongs_to_one_user(self, served: Served) -> None:
        hers = served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-1"})
        his = served.ask("POST", BOOKINGS, user="bob", json=GOOD, headers={KEY: "k-1"})

        assert hers.get_json()["id"] != his.get_json()["id"]

    def test_a_request_that_was_refused_with_503_is_judged_again(self, served: Served) -> None:
        served.unknown_capacity = "The nodes of the cluster have not been read yet."
        problem(served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-1"}), 503)
        served.unknown_capacity = None

        assert served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-1"}).status_code == 201

    def test_a_repeated_release_is_not_a_second_release(self, served: Served) -> None:
        booking = served.booked()
        answers = [
            served.ask("POST", f"{BOOKINGS}/{booking}/release", headers={KEY: "k-2"}) for _ in range(2)
        ]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert rules(problem(served.ask("POST", f"{BOOKINGS}/{booking}/release"), 422)) == ["over"]

    def test_a_repeated_request_is_answered_as_before_although_its_tag_is_stale_by_now(
        self, served: Served
    ) -> None:
        booking = served.booked()
        sent = {KEY: "k-2", "If-Match": tag(served, booking)}
        longer = {"end": "2026-03-05T09:00:00Z"}
        answers = [served.ask("PATCH", f"{BOOKINGS}/{booking}", json=longer, headers=sent) for _ in range(2)]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].get_json() == answers[1].get_json()
        assert served.stored == 2

    def test_the_same_key_and_body_with_another_method_is_another_request(self, served: Served) -> None:
        path = f"{BOOKINGS}/{served.booked(start='2026-03-03T09:00:00Z')}"

        assert served.ask("PATCH", path, json={}, headers={KEY: "k-1"}).status_code == 200
        problem(served.ask("DELETE", path, json={}, headers={KEY: "k-1"}), 409)
        assert served.ask("GET", path).get_json()["state"] == "planned"

    @pytest.mark.parametrize("what", ADMINISTERED)
    def test_a_repeated_request_of_an_administrator_is_done_once(self, served: Served, what: str) -> None:
        served.signing_in.administrators.add("alice")
        path, body = ADMINISTERED[what]
        first, again = (served.ask("POST", path, json=body, headers={KEY: "k-1"}) for _ in range(2))

        assert (first.status_code, again.get_json()) == (again.status_code, first.get_json())
        audit = served.ask("GET", "/api/v1/admin/audit").get_json()["audit"]
        assert len(audit) == 1
        problem(served.ask("POST", path, json=body | {"reason": "other"}, headers={KEY: "k-1"}), 409)
        if "id" in first.get_json():
            gone = f"{path}/{first.get_json()['id']}"
            answers = [served.ask("DELETE", gone, headers={KEY: "k-2"}) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [200, 200]
            problem(served.ask("DELETE", gone, headers={KEY: "k-3"}), 404)

    def test_the_key_of_a_booking_cannot_be_used_for_a_release(self, served: Served) -> None:
        made = served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: "k-1"})
        booking = made.get_json()["id"]

        problem(served.ask("POST", f"{BOOKINGS}/{booking}/release", headers={KEY: "k-1"}), 409)
        assert served.ask("GET", f"{BOOKINGS}/{booking}").get_json()["state"] == "active"

    @pytest.mark.parametrize("key", ["", "x" * 201, "\xe4", "a\x7fb"])
    def test_an_invalid_key_is_refused(self, served: Served, key: str) -> None:
        problem(served.ask("POST", BOOKINGS, json=GOOD, headers={KEY: key}), 400)
        assert served.stored == 0
