"""An e-mail address stays in the database: no answer but its owner's, no metric and no log holds it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client import generate_latest

from booking.server.mirror.plan import fields_of, spec_of
from cluster.decide.identity import Rule
from cluster.fake.clock import START
from devcluster.paths import CHECKOUT
from tests.booking.server.web.served import BOOKINGS
from tests.booking.server.web.test_harm import requests
from tests.booking.server.web.test_maia import BOOKING, Maia
from tests.fakes.identity import users_of
from tests.fakes.objects import A6000

SIGN_IN = CHECKOUT / "docs" / "operations" / "sign-in.md"
ADDRESS = "Alice.Liddell@example.org"
LOCAL = "alice.liddell"
OWN = "/api/v1/me"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Maia]:
    made = Maia(tmp_path)
    made.signing_in.administrators.add("bob")
    made.store.write(lambda writing: writing.email_set("alice", ADDRESS, START))
    yield made
    made.store.close()


def seen(served: Maia) -> str:
    """All answers that alice and an administrator can get, and the metrics."""
    answers = []
    for user in ("alice", "bob"):
        for method, path, _ in requests(served):
            if method == "GET" and (user, path.partition("?")[0]) != ("alice", OWN):
                answers.append(served.ask("GET", path, user=user).text)
        answers += [served.ask("GET", f"{BOOKINGS}?past=true", user=user).text]
    answers += [served.door_of_maia.get("/maia-api/gpu-stats").text]
    return "\n".join([*answers, generate_latest(served.registry).decode()])


def test_actions_of_a_user_are_shown_and_recorded_under_the_user_id(
    served: Maia, capsys: pytest.CaptureFixture[str]
) -> None:
    booking = served.booked(model=A6000, start="2026-03-03T09:00:00Z")
    served.book(model=A6000, duration="P90D")
    served.ask("DELETE", f"{BOOKINGS}/{booking}", json={})
    assert served.post(user_email=ADDRESS, booking=BOOKING).status_code == 200
    assert served.post(user_email=ADDRESS, booking=BOOKING).status_code == 400
    assert served.post(user_email=ADDRESS).get_json()["schedulable"] is False
    served.not_guaranteed_reason = "The mirror is late."
    assert served.post(user_email=ADDRESS, booking=BOOKING).status_code == 503

    answers = seen(served)
    assert '"user":"alice"' in answers
    assert "create" in answers
    printed = capsys.readouterr()
    assert "a request from MAIA could not be answered" in printed.out + printed.err
    with served.store.reading() as reading:
        records = reading.history("alice")
        assert reading.users_with_email(ADDRESS) == ["alice"]
    assert len(records) == 2
    objects = [str(fields_of(spec_of(record, store_id="s"))) for record in records]
    for text in (answers, printed.out, printed.err, *objects):
        assert LOCAL not in text.lower()


def test_the_documented_rules_yield_one_user_id_without_the_address() -> None:
    written = SIGN_IN.read_text(encoding="utf-8").split("the same ids for every source:")[1]
    rules = msgspec.json.decode(written.partition("]\n\n")[0] + "]", type=tuple[Rule, ...])
    assert users_of("alice@example.org", rules) == {"alice"}
    assert users_of("alice@another.org", rules) == {None}
