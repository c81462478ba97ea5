"""Listing, showing, releasing and cancelling by REST."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from booking.eviction.settings import EndAction, EvictionSettings
from booking.server.capacity.capacity import Capacity
from tests.booking.server.web.served import BOOKINGS, Served, problem, rules
from tests.fakes.objects import A100, A6000

HOUR = timedelta(hours=1).total_seconds()


def test_users_see_their_own_bookings(served: Served) -> None:
    hers = served.booked()
    his = served.booked(user="bob")

    assert [each["id"] for each in served.ask("GET", BOOKINGS).get_json()["bookings"]] == [hers]
    assert [each["id"] for each in served.ask("GET", BOOKINGS, user="bob").get_json()["bookings"]] == [his]


def test_past_bookings_are_listed_on_demand(served: Served) -> None:
    ended = served.booked(duration="P1D")
    served.clock.advance(20 * 24 * HOUR)

    assert served.ask("GET", BOOKINGS).get_json() == {"bookings": []}
    (listed,) = served.ask("GET", BOOKINGS + "?past=true").get_json()["bookings"]
    assert (listed["id"], listed["state"]) == (ended, "ended")
    assert served.ask("GET", BOOKINGS + "?past=false").get_json() == {"bookings": []}


def test_another_users_booking_is_answered_as_unknown(served: Served) -> None:
    his = served.booked(user="bob")

    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/release")):
        refusal = problem(served.ask(method, f"{BOOKINGS}/{his}{path}"), 404)
        assert refusal["type"].endswith(":unknown-booking")
    assert served.stored == 1


def test_a_running_booking_is_released_now(served: Served) -> None:
    booking = served.booked()
    served.clock.advance(HOUR)
    answer = served.ask("POST", f"{BOOKINGS}/{booking}/release")

    assert answer.status_code == 200
    body = answer.get_json()
    assert (body["state"], body["end"], body["released"]) == (
        "ended",
        "2026-03-02T10:00:00Z",
        "2026-03-02T10:00:00Z",
    )
    assert body["mirrored"] is True
    assert served.mirror.calls[-2:] == ["trigger", 2]


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (
            "recreate-without-gpu",
            "Its bare pods end with it and come back without a GPU: save your work first.",
            "Its bare pods end now and come back without a GPU.",
        ),
        (
            "delete",
            "Its bare pods end with it and do not come back: save your work first.",
            "Its bare pods end now and do not come back.",
        ),
        ("demote", "Its pods stay, but must leave", "Its pods stay, but must leave"),
    ],
)
def test_the_answer_to_a_release_says_what_happens_to_the_pods_by_the_settings(
    tmp_path: Path, action: EndAction, before: str, after: str
) -> None:
    served = Served(tmp_path, terms=EvictionSettings(end_action_without_controller=action))
    with closing(served.store):
        booking = served.booked()
        served.clock.advance(HOUR)
        would = served.ask("POST", f"{BOOKINGS}/{booking}/release?dry_run=true").get_json()
        assert would["pods"].startswith(before)
        assert "pods" not in served.ask("GET", f"{BOOKINGS}/{booking}").get_json()
        done = served.ask("POST", f"{BOOKINGS}/{booking}/release").get_json()
        assert done["pods"].startswith(after)
        assert "pods" not in served.ask("GET", f"{BOOKINGS}/{booking}").get_json()


def test_only_a_change_that_ends_a_booking_now_mentions_pods_as_a_release_does(served: Served) -> None:
    booking = served.booked()
    served.clock.advance(HOUR)
    longer = served.ask("PATCH", f"{BOOKINGS}/{booking}", json={"end": "2026-03-05T09:00:00Z"}).get_json()
    assert "pods" not in longer
    over = served.ask("PATCH", f"{BOOKINGS}/{booking}", json={"end": "2026-03-02T09:30:00Z"}).get_json()
    assert over["pods"].startswith("Its bare pods end now")


def test_a_release_that_is_not_in_the_cluster_yet_does_not_say_that_pods_end_now(served: Served) -> None:
    booking = served.booked()
    served.mirror.writes = False
    body = served.ask("POST", f"{BOOKINGS}/{booking}/release").get_json()
    assert body["pods"].startswith("Its bare pods end with it")


def test_the_answer_to_a_cancellation_says_nothing_about_pods(served: Served) -> None:
    booking = served.booked(start="2026-03-10T09:00:00Z")
    path = f"{BOOKINGS}/{booking}"
    assert "pods" not in served.ask("DELETE", f"{path}?dry_run=true").get_json()
    assert "pods" not in served.ask("DELETE", path).get_json()


@pytest.mark.parametrize(
    ("fields", "method", "path", "state"),
    [({}, "POST", "/release", "ended"), ({"start": "2026-03-10T09:00:00Z"}, "DELETE", "", "cancelled")],
)
def test_a_dry_run_of_an_end_answers_as_the_end_would_and_changes_nothing(
    served: Served, fields: dict[str, str], method: str, path: str, state: str
) -> None:
    booking = served.booked(**fields)
    served.clock.advance(60)
    before = served.ask("GET", f"{BOOKINGS}/{booking}").get_json()
    tried = served.ask(method, f"{BOOKINGS}/{booking}{path}?dry_run=true")
    assert (tried.status_code, tried.get_json()["dry_run"], tried.get_json()["state"]) == (200, True, state)
    assert "ETag" not in tried.headers
    assert served.ask("GET", f"{BOOKINGS}/{booking}").get_json() == before
    assert served.stored == 1
    done = served.ask(method, f"{BOOKINGS}/{booking}{path}").get_json()
    assert {name: tried.get_json()[name] for name in ("start", "end")} == {
        name: done[name] for name in ("start", "end")
    }
    again = problem(served.ask(method, f"{BOOKINGS}/{booking}{path}?dry_run=true"), 422)
    assert rules(again) == ["over"]


def test_nothing_is_released_or_cancelled_while_the_mirror_is_unhealthy(served: Served) -> None:
    booking = served.booked()
    served.not_guaranteed_reason = "The mirror rests."

    problem(served.ask("POST", f"{BOOKINGS}/{booking}/release"), 503)
    problem(served.ask("DELETE", f"{BOOKINGS}/{booking}"), 503)
    assert served.stored == 1


def test_a_release_that_is_not_in_the_cluster_in_time_is_not_confirmed(served: Served) -> None:
    booking = served.booked()
    served.mirror.writes = False
    answer = served.ask("POST", f"{BOOKINGS}/{booking}/release")

    assert answer.status_code == 202
    assert answer.get_json()["mirrored"] is False


def test_reading_continues_while_nothing_can_be_booked(served: Served) -> None:
    booking = served.booked()
    served.not_guaranteed_reason = "The mirror rests."
    served.unknown_capacity = "The nodes of the cluster have not been read yet."

    assert served.ask("GET", BOOKINGS).status_code == 200
    assert served.ask("GET", f"{BOOKINGS}/{booking}").status_code == 200


def test_a_lost_database_is_reported_without_its_path(served: Served) -> None:
    served.booked()
    served.file.rename(served.file.with_suffix(".away"))
    answer = served.ask("GET", BOOKINGS)

    refusal = problem(answer, 503)
    assert str(served.file) not in refusal["detail"]
    assert answer.headers["Retry-After"]
    problem(served.book(user="bob", model=A100, duration="P1D"), 503)


def test_a_booking_whose_devices_are_gone_is_at_risk_and_nothing_is_cancelled(served: Served) -> None:
    booking = served.booked(start="2026-03-10T09:00:00Z", count=4)
    assert "at_risk" not in served.ask("GET", f"{BOOKINGS}/{booking}").get_json()
    served.capacity = Capacity({A100: {"node-a": 2}, A6000: {"node-a": 4}})

    (listed,) = served.ask("GET", BOOKINGS).get_json()["bookings"]
    assert (listed["id"], listed["state"], listed["at_risk"]) == (booking, "planned", True)
    shown = served.ask("GET", f"{BOOKINGS}/{booking}").get_json()
    assert shown["at_risk"] is True
    assert shown["alternatives"]
    assert {offer["why"] for offer in shown["alternatives"]} & {"fewer-gpus", "other-model"}
    assert served.stored == 1


def test_the_answer_to_a_change_says_whether_the_booking_is_at_risk(served: Served) -> None:
    booking = served.booked(start="2026-03-10T09:00:00Z", count=4)
    served.capacity = Capacity({A100: {"node-a": 2}, A6000: {"node-a": 4}})

    def changed(**what: object) -> dict[str, Any]:
        answer = served.ask("PATCH", f"{BOOKINGS}/{booking}", json=what)
        assert answer.status_code == 200, answer.text
        return dict(answer.get_json())

    assert changed(count=3)["at_risk"] is True
    assert "at_risk" not in changed(count=2)


def test_no_booking_is_called_at_risk_while_the_devices_are_unknown(served: Served) -> None:
    booking = served.booked(start="2026-03-10T09:00:00Z", count=4)
    served.capacity = Capacity({})
    served.unknown_capacity = "The nodes of the cluster have not been read yet."

    assert "at_risk" not in served.ask("GET", f"{BOOKINGS}/{booking}").get_json()
