"""Sixteen writers book at once through the whole booking server in a real cluster.

Each booking is another user's, whose token the API server reviews, and each answer waits until its Booking
object is written. Afterwards the calendar is full, in the cluster too, and one more booking is refused.
"""

import http.client
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import urllib3

from booking.server.calendar import peak
from cluster import names
from cluster.kube.resources import BOOKINGS
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.product import booking_server
from tests.bench.bench_booked import A100
from tests.bench.lab import POLICY, Lab, Standing
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE
from tests.bench.rows import Row
from tests.bench.simulated import in_parallel
from tests.bench.writers import WRITERS, Written, ask, in_turns_with_inserts, kinds_of, rows_of

EACH: Final = 4
TURNS: Final = 2
ALL: Final = WRITERS * EACH * TURNS
GPUS: Final = 4
"""A100s in the cluster: this many bookings share a day."""
LATE: Final = f"user-{ALL}"
_RULES: Final = [{"source": "kubernetes", "match": f"system:serviceaccount:{NAMESPACE}:(.+)", "user": r"\1"}]
_KINDS: Final = kinds_of(
    "cluster", f"{WRITERS} writers book over HTTP in a real cluster: tokens asked, Booking objects written"
)


def measure(lab: Lab) -> Iterator[Row]:
    """In turns with bare INSERTs on the same disk."""
    standing = lab.standing
    _let_everybody_book(standing)
    tokens = _people(standing.cluster, [f"user-{number}" for number in range(ALL + 1)])
    with TemporaryDirectory(dir=standing.parts.folder) as folder:
        yield from rows_of(_KINDS, *_booked(standing.cluster.address, tokens, Path(folder)))
    _check(standing.cluster)


def _let_everybody_book(standing: Standing) -> None:
    standing.parts.server().kill()
    standing.parts.start_server({**POLICY, "GPU_BOOKING_IDENTITY_RULES": json.dumps(_RULES)})
    standing.parts.await_ready()


def _people(cluster: Cluster, people: list[str]) -> dict[str, str]:
    """Create accounts; their tokens for the booking server."""
    tokens: dict[str, str] = {}
    with urllib3.PoolManager(ca_certs=str(cluster.ca_file), maxsize=WRITERS) as pool:
        url = f"{cluster.api_server}/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        headers = {"Authorization": f"Bearer {cluster.administrator_token}"}

        def admit(name: str) -> None:
            pool.request("POST", url, json={"metadata": {"name": name}}, headers=headers)
            spec = {"audiences": [names.AUDIENCE], "expirationSeconds": 3600}
            answer = pool.request("POST", f"{url}/{name}/token", json={"spec": spec}, headers=headers)
            tokens[name] = answer.json()["status"]["token"]

        in_parallel([partial(admit, name) for name in people])
    return tokens


def _booked(address: str, tokens: dict[str, str], folder: Path) -> tuple[Written, Written]:
    lines = [http.client.HTTPConnection(address, booking_server.PORT) for _ in range(WRITERS)]

    def book(writer: int, number: int) -> None:
        place = number * WRITERS + writer
        answer = ask(lines[writer], tokens[f"user-{place}"], **_request(place // GPUS))
        if answer != HTTPStatus.CREATED:
            raise RuntimeError(f"A booking was answered with {answer}.")

    measured = in_turns_with_inserts(folder, book, turns=TURNS, each=EACH)
    late = ask(lines[0], tokens[LATE], **_request(0))
    for line in lines:
        line.close()
    if late != HTTPStatus.UNPROCESSABLE_ENTITY:
        raise RuntimeError(f"One booking more than there are GPUs was answered with {late}.")
    return measured


def _request(day: int) -> dict[str, object]:
    start = SystemClock().now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=2 + day)
    return {"model": A100, "start": start.isoformat(), "duration": "P1D"}


def _check(cluster: Cluster) -> None:
    """Check that every booking is in the cluster, and that no GPU is booked twice (law L5)."""
    now = SystemClock().now()
    kube = administrator(cluster)
    specs = [booking.spec for booking in kube.list(BOOKINGS).items if booking.spec.start > now]
    kube.close()
    most = max(peak(specs, spec.start, spec.end) for spec in specs)
    if len(specs) != ALL or most > GPUS:
        raise RuntimeError(f"{len(specs)} bookings of {ALL} are in the cluster, {most} GPUs at once.")


MEASURE: Final = Measure("writers-cluster", tuple(_KINDS.values()), measure, on_cluster=True)
