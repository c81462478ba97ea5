"""MAIA's webhook finds what it reads, byte for byte."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from booking.server.records import Record
from booking.server.web.app import create_app
from booking.server.web.maia import MaiaParts, maia
from booking.server.web.mirror_barrier import MirrorBarrier
from cluster.decide.identity import Rule
from cluster.fake.clock import START
from tests.booking.server.web.served import STRANGERS, Served
from tests.fakes.objects import A100, A6000

ASK = "/maia-api/gpu-schedulability"
STATS = ("/maia-api/gpu-stats", "/maia/resources/gpu_status_summary")
DAY = timedelta(days=1)
RULES = (Rule(source="maia", match=r"([^@]+)@example[.]org", user=r"\1"),)
ALICE = {"user_email": "alice@example.org", "namespace": "Team_A", "token": "secret"}
BOOKING = {"starting_time": "2026-03-03 09:00:00", "ending_time": "2026-03-05 09:00:00", "gpu": A6000}
GUESS = {"token": "guess"}
NONE = b'{"schedulable":false,"until":null}'
NO = b'{"error":"Invalid or missing secret token"}'


class Maia(Served):
    """A booking server with MAIA's addresses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.token = folder / "maia-token"
        self.token.write_text("secret\n")
        self.free = {A100: 3, A6000: 0}
        self.door_of_maia = self.made(self.token)

    def made(self, token: Path | None) -> FlaskClient:
        parts = MaiaParts(
            bookings=self.parts.bookings,
            store=self.store,
            readers=self.strangers(),
            guesses=self.strangers(),
            guarantee=MirrorBarrier(
                self.mirror, lambda: self.not_guaranteed_reason, lambda: self.unknown_capacity
            ),
            rules=RULES,
            free=lambda: self.free,
            unknown_capacity=lambda: self.unknown_capacity,
            token_file=token,
        )
        return create_app(self.parts, self.guard, audience="x", blueprints=[maia(parts)]).test_client()

    def post(self, path: str = ASK, **body: Any) -> TestResponse:
        return self.door_of_maia.post(path, json={**ALICE, **body})

    def add(self, start: datetime, end: datetime, **named: Any) -> Record:
        record = Record(
            id=f"b-{self.store.change() + 1:010}",
            user=named.pop("user", "alice"),
            model=named.pop("model", A100),
            count=1,
            topology="any",
            namespace=named.pop("namespace", None),
            start=start,
            end=end,
            created=start,
        )
        return self.store.write(lambda writing: writing.add(record))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Maia]:
    made = Maia(tmp_path)
    yield made
    made.store.close()


@pytest.mark.parametrize("path", [ASK, f"{ASK}/"])
def test_a_running_booking_is_schedulable_until_its_end(served: Maia, path: str) -> None:
    served.add(START - DAY, START + DAY)
    answer = served.post(path)

    assert answer.status_code == 200
    assert answer.content_type == "application/json"
    expected = b'{"schedulable":true,"until":"2026-03-03T09:00:00Z","gpu":"NVIDIA-A100-SXM4-80GB"}'
    assert answer.data == expected


@pytest.mark.parametrize(
    ("start", "end"),
    [(START + DAY, START + 2 * DAY), (START - 2 * DAY, START - DAY), (START - DAY, START)],
    ids=["planned", "over", "over now"],
)
def test_any_other_booking_is_not_schedulable(served: Maia, start: datetime, end: datetime) -> None:
    served.add(start, end)

    assert served.post().data == NONE


@pytest.mark.parametrize(
    ("namespace", "covers"),
    [(None, True), ("team-a", True), ("team-b", False)],
    ids=["all", "its", "another"],
)
def test_a_booking_covers_its_namespace_in_every_spelling_of_maia(
    served: Maia, namespace: str | None, *, covers: bool
) -> None:
    served.add(START - DAY, START + DAY, namespace=namespace)

    assert served.post().get_json()["schedulable"] is covers


def test_bookings_of_others_do_not_count(served: Maia) -> None:
    served.add(START - DAY, START + DAY, user="bob")

    assert served.post().data == NONE


def test_an_address_belongs_to_the_person_who_signed_in_with_it(served: Maia) -> None:
    served.add(START - DAY, START + DAY, user="liddell")
    assert served.post().data == NONE
    served.store.write(lambda writing: writing.email_set("liddell", "Alice@example.org", START))
    assert served.post().get_json()["schedulable"] is True


def test_an_address_of_two_people_belongs_to_nobody(served: Maia) -> None:
    served.add(START - DAY, START + DAY, user="alice")
    for user in ("alice", "bob"):
        served.store.write(lambda writing, user=user: writing.email_set(user, "alice@example.org", START))

    assert served.post().data == NONE


@pytest.mark.parametrize("token", ["", "Secret", "secret ", None, 5, ["secret"], "é"])
def test_another_token_is_refused(served: Maia, token: object) -> None:
    answer = served.post(token=token)

    assert (answer.status_code, answer.data) == (403, NO)


def test_guessing_tokens_is_limited_and_maia_is_not(served: Maia) -> None:
    for _ in range(STRANGERS):
        assert served.post(**GUESS).status_code == 403
    refused = served.post(**GUESS)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    for _ in range(2 * STRANGERS):
        assert served.post().data == NONE


def test_guessing_tokens_does_not_use_up_the_reads_of_others_at_that_address(served: Maia) -> None:
    for _ in range(STRANGERS + 1):
        served.post(**GUESS)
    assert served.post(**GUESS).status_code == 429
    for path in STATS:
        assert served.door_of_maia.get(path).status_code == 200


def test_reading_too_often_is_limited_and_a_wrong_token_is_still_refused_as_wrong(
    served: Maia,
) -> None:
    for _ in range(STRANGERS):
        assert served.door_of_maia.get(STATS[0]).status_code == 200
    assert served.door_of_maia.get(STATS[0]).status_code == 429
    assert served.door_of_maia.get(STATS[1]).status_code == 429
    assert served.post(**GUESS).status_code == 403
    assert served.post().data == NONE


def test_other_anonymous_clients_do_not_use_up_maias_rate_limit(served: Maia) -> None:
    for _ in range(STRANGERS + 1):
        served.door_of_maia.get("/api/v1")
    assert served.door_of_maia.get("/api/v1").status_code == 429
    assert served.door_of_maia.get(STATS[0]).status_code == 200


def test_no_request_is_answered_before_a_token_is_set(served: Maia) -> None:
    client = served.made(None)
    for path in (ASK, f"{ASK}/"):
        assert (client.post(path, json=ALICE).status_code, client.post(path, json=ALICE).data) == (403, NO)
    assert client.get(STATS[0]).status_code == 403


@pytest.mark.parametrize("content", [None, "", " \n"], ids=["missing", "empty", "blank"])
def test_a_token_file_without_a_token_lets_nobody_in(served: Maia, content: str | None) -> None:
    served.token.unlink()
    if content is not None:
        served.token.write_text(content)

    for token in ("secret", "", " "):
        assert served.post(token=token).status_code == 403
    assert served.door_of_maia.get(STATS[0]).status_code == 403


def test_a_new_token_takes_effect_at_once(served: Maia) -> None:
    served.token.write_text("another")

    assert served.post().status_code == 403
    assert served.post(**dict.fromkeys(["token"], "another")).status_code == 200


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"user_email": ""}, b'{"error":"Missing user_email"}'),
        ({"user_email": None, "namespace": None}, b'{"error":"Missing user_email"}'),
        ({"namespace": ""}, b'{"error":"Missing namespace"}'),
        ({"namespace": 5}, b'{"error":"Missing namespace"}'),
        ({"user_email": "a\0@example.org"}, b'{"error":"user_email has characters that nobody can see"}'),
    ],
)
def test_missing_fields_are_named(served: Maia, changed: dict[str, Any], error: bytes) -> None:
    answer = served.post(**changed)

    assert (answer.status_code, answer.data) == (400, error)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"[" * 10_000, b"\xff"])
def test_nonsense_is_refused(served: Maia, body: bytes) -> None:
    assert served.door_of_maia.post(ASK, data=body).status_code == 400


class TestCreation:
    @pytest.mark.parametrize("path", [ASK, f"{ASK}/"])
    def test_a_booking_is_made_for_the_person_of_the_address(self, served: Maia, path: str) -> None:
        answer = served.post(path, booking=BOOKING)

        assert (answer.status_code, answer.data) == (200, b'{"message":"Booking created successfully"}')
        with served.store.reading() as reading:
            [record] = reading.history("alice")
        assert (record.model, record.count, record.namespace) == (A6000, 1, "team-a")
        assert record.start == datetime(2026, 3, 3, 9, tzinfo=UTC)
        assert record.end == datetime(2026, 3, 5, 9, tzinfo=UTC)
        assert served.mirror.calls == ["trigger", record.change]

    def test_the_rules_apply_and_the_first_broken_one_is_reported(self, served: Maia) -> None:
        answer = served.post(booking={**BOOKING, "ending_time": "2026-03-03 10:00:00"})

        assert answer.status_code == 400
        assert list(answer.get_json()) == ["error"]
        assert "at least" in answer.get_json()["error"] or "short" in answer.get_json()["error"]

    @pytest.mark.parametrize("text", ["2026-03-03T09:00:00Z", "soon", "2026-13-01 00:00:00"])
    def test_instants_are_written_as_maia_writes_them(self, served: Maia, text: str) -> None:
        answer = served.post(booking={**BOOKING, "starting_time": text})

        assert answer.status_code == 400
        assert "%Y-%m-%d %H:%M:%S" in answer.get_json()["error"]

    @pytest.mark.parametrize(
        "booking", [None, [], {}, {"starting_time": "2026-03-03 09:00:00"}, {**BOOKING, "gpu": ""}]
    )
    def test_an_incomplete_booking_is_refused(self, served: Maia, booking: object) -> None:
        before = served.stored
        assert served.post(booking=booking).status_code == 400
        assert served.stored == before

    def test_nothing_is_booked_while_nothing_can_be_guaranteed(self, served: Maia) -> None:
        served.not_guaranteed_reason = "The mirror is late."
        before = served.stored

        answer = served.post(booking=BOOKING)
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert served.stored == before

    def test_a_booking_for_an_invalid_address_is_refused(self, served: Maia) -> None:
        assert served.post(user_email="nobody", booking=BOOKING).status_code == 400


@pytest.mark.parametrize("path", [path + end for path in STATS for end in ("", "/")])
def test_free_gpus_are_shown_by_model_without_names(served: Maia, path: str) -> None:
    served.add(START - DAY, START + DAY)
    answer = served.door_of_maia.get(path)

    assert answer.status_code == 200
    expected = b'{"gpu": {"NVIDIA-A100-SXM4-80GB": 3, "NVIDIA-RTX-A6000": 0}, "gpu_allocations": {}}'
    assert answer.data == expected


def test_free_gpus_are_not_shown_while_they_are_unknown(served: Maia) -> None:
    served.unknown_capacity = "The cluster is not known yet."

    answer = served.door_of_maia.get(STATS[0])
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize("path", [ASK, f"{ASK}/"])
def test_the_calendar_of_all_users_is_not_available(served: Maia, path: str) -> None:
    served.add(START - DAY, START + DAY)
    answer = served.door_of_maia.get(path, json={"booking": {}})

    assert answer.status_code == 410
    assert "example.org" not in answer.text
    assert list(answer.get_json()) == ["error"]
