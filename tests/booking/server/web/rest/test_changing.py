"""Extending, shortening, moving and resizing a booking by REST."""

from typing import Any

from tests.booking.server.web.served import BOOKINGS, Served, about, problem, rules
from tests.fakes.objects import A6000

PLANNED = {"start": "2026-03-10T09:00:00Z", "duration": "P2D"}


def change(served: Served, booking: str, *, query: str = "", user: str = "alice", **fields: Any) -> Any:
    return served.ask("PATCH", f"{BOOKINGS}/{booking}{query}", user=user, json=fields)


def test_a_booking_is_extended_and_its_new_version_returned(served: Served) -> None:
    booking = served.booked()
    answer = change(served, booking, end="2026-03-06T09:00:00Z")

    assert answer.status_code == 200, answer.text
    body = answer.get_json()
    assert (body["id"], body["end"], body["mirrored"]) == (booking, "2026-03-06T09:00:00Z", True)
    assert answer.headers["ETag"] == f'"{body["version"]}"'
    assert served.mirror.calls[-2:] == ["trigger", served.stored]
    assert served.ask("GET", f"{BOOKINGS}/{booking}").get_json()["end"] == "2026-03-06T09:00:00Z"


def test_a_planned_booking_is_moved_and_resized_at_once(served: Served) -> None:
    booking = served.booked(**PLANNED)
    answer = change(
        served,
        booking,
        start="2026-03-11T09:00:00Z",
        end="2026-03-13T09:00:00Z",
        count=2,
        namespace="research",
    )

    assert answer.status_code == 200, answer.text
    body = answer.get_json()
    assert (body["start"], body["count"], body["namespace"]) == ("2026-03-11T09:00:00Z", 2, "research")


def test_a_null_namespace_means_all_of_them_and_a_missing_one_changes_nothing(served: Served) -> None:
    booking = served.booked(**PLANNED, namespace="research")
    assert change(served, booking, end="2026-03-13T09:00:00Z").get_json()["namespace"] == "research"
    assert change(served, booking, namespace=None).get_json()["namespace"] is None


def test_a_change_that_breaks_a_rule_leaves_the_booking_as_it_was(served: Served) -> None:
    booking = served.booked()
    before = served.ask("GET", f"{BOOKINGS}/{booking}").get_json()
    refusal = problem(change(served, booking, end="2026-03-30T09:00:00Z"), 422)

    assert "longest" in rules(refusal)
    # It began on Monday, 2 March: no more than fourteen days.
    assert [(each["why"], each["end"]) for each in refusal["alternatives"]] == [
        ("within-limits", "2026-03-16T09:00:00Z"),
        ("shorter", "2026-03-15T09:00:00Z"),
        ("shorter", "2026-03-14T09:00:00Z"),
    ]
    assert served.ask("GET", f"{BOOKINGS}/{booking}").get_json() == before
    assert served.stored == 1


def test_a_dry_run_of_a_change_answers_as_the_change_would_and_changes_nothing(served: Served) -> None:
    booking = served.booked()
    answer = change(served, booking, query="?dry_run=true", end="2026-03-06T09:00:00Z")

    assert answer.status_code == 200, answer.text
    body = answer.get_json()
    assert (body["dry_run"], body["user"], body["end"]) == (True, "alice", "2026-03-06T09:00:00Z")
    assert served.stored == 1
    refused = problem(change(served, booking, query="?dry_run=true", end="2026-03-30T09:00:00Z"), 422)
    assert "longest" in rules(refused)
    assert refused == problem(change(served, booking, end="2026-03-30T09:00:00Z"), 422)


def test_the_model_of_a_booking_does_not_change(served: Served) -> None:
    booking = served.booked()
    refusal = problem(change(served, booking, model=A6000), 400)

    assert about(refusal) == {"model": "unknown-field"}
    assert served.stored == 1


def test_another_users_booking_cannot_be_changed(served: Served) -> None:
    his = served.booked(user="bob")
    problem(change(served, his, end="2026-03-06T09:00:00Z"), 404)
    problem(change(served, his, query="?dry_run=true", end="2026-03-06T09:00:00Z"), 404)
    assert served.stored == 1


def test_nothing_is_changed_while_nothing_can_be_booked(served: Served) -> None:
    booking = served.booked()
    served.not_guaranteed_reason = "The mirror rests."
    answer = change(served, booking, end="2026-03-06T09:00:00Z")

    problem(answer, 503)
    assert answer.headers["Retry-After"]
    assert served.stored == 1


def test_a_change_that_is_not_in_the_cluster_in_time_is_not_confirmed(served: Served) -> None:
    booking = served.booked()
    served.mirror.writes = False
    answer = change(served, booking, end="2026-03-06T09:00:00Z")

    assert (answer.status_code, answer.get_json()["mirrored"]) == (202, False)
