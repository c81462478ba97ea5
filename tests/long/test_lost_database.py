"""The database is lost while Booking objects exist: the mirror alarms, no pod loses a GPU (law L9)."""

from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path

import pytest

from cluster import names
from cluster.kube.resources import BOOKINGS
from devcluster import probe
from devcluster.product import Parts
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("restarted", [False, True], ids=["under the running server", "and it is restarted"])
def test_a_lost_database_stops_the_mirror_and_no_pod_is_evicted(
    alice: Person, playground: Playground, parts: Parts, *, restarted: bool
) -> None:
    booking = alice.book(1)
    name = alice.create(probe.pod("covered", [probe.container("main", gpus=1)], model=A100))
    playground.await_phase([name])
    was = playground.pod(name)
    hidden = parts.folder / "hidden"
    hidden.mkdir()
    if restarted:
        parts.server().kill()
    files = parts.database.parent.glob(f"{parts.database.name}*") if restarted else [parts.database]
    _move(files, hidden)
    try:
        if restarted:
            parts.server().restart()

        def alarm() -> str | None:
            status, body = parts.ask(parts.server(), "/readyz")
            return body if status == HTTPStatus.SERVICE_UNAVAILABLE and "database" in body else None

        playground.await_that("the server says that its database is lost", alarm)
        refused = alice.ask(model=A100, count=1, duration="P1D")
        assert refused.status == HTTPStatus.SERVICE_UNAVAILABLE
        # What an alert is built on: the mirror's next round sees it.
        playground.await_that(
            "the metric reports it", lambda: parts.metric(parts.server(), "_mirror_store_unknown") or None
        )
        assert playground.kube.get(BOOKINGS, booking)
        now = playground.pod(name)
        assert now.metadata.uid == was.metadata.uid
        assert now.metadata.deletion_timestamp is None
        assert now.metadata.annotation(names.BOOKING) == booking
    finally:
        if restarted:
            parts.server().kill()
            for new in parts.database.parent.glob(f"{parts.database.name}*"):
                new.unlink()
        _move(hidden.iterdir(), parts.folder)
        hidden.rmdir()
        if restarted:
            parts.server().restart()
        playground.await_that("the server is well again", lambda: parts.is_ready(parts.server()) or None)
    assert alice.rest.show(booking).body["state"] == "active"


def _move(files: Iterable[Path], folder: Path) -> None:
    for file in list(files):
        file.rename(folder / file.name)
