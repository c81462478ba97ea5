"""A PostgreSQL server that stops under the booking server, and comes back."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.booking.server.web.served import BOOKINGS, Served, problem
from tests.booking.server.web.test_harm import requests
from tests.databases import PostgresServer
from tests.fakes.objects import A100

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this test's own, which may be stopped."""
    with closing(PostgresServer()) as made:
        yield made


def test_every_address_reports_that_the_database_server_is_down_and_nothing_is_lost(
    server: PostgresServer, tmp_path: Path
) -> None:
    served = Served(tmp_path, url=server.new_url())
    with closing(served.store):
        booking = served.booked()
        served.signing_in.administrators.add("alice")
        server.stop()
        for method, path, body in requests(served):
            answer = served.ask(method, path, json=body)
            refusal = problem(answer, 503)
            assert int(answer.headers["Retry-After"]) > 0, path
            assert str(server.folder) not in refusal["detail"]
        server.start()

        assert served.ask("GET", f"{BOOKINGS}/{booking}").get_json()["state"] == "active"
        assert served.stored == 1
        assert served.book(user="bob", model=A100, duration="P1D").status_code == 201
