"""Sixteen writers book at once through the whole booking server in a real cluster.

Each booking is another user's, whose token the API server reviews, and each answer waits until its Booking
object is written. Afterwards the calendar is full, in the cluster too, and one more booking is refused. The
floor is as many objects of an equal kind, created by as many threads on connections that stay open.
"""

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import urllib3

from booking.server.calendar import peak
from booking.server.mirror.plan import fields_of, spec_of
from booking.server.records import Place, Record
from cluster import names
from cluster.kube.resources import BOOKINGS
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.paths import CHECKOUT
from devcluster.product import booking_server
from devcluster.wait import poll
from tests.bench.bench_booked import A100
from tests.bench.lab import POLICY, Lab, Standing
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE
from tests.bench.rows import Row, Target
from tests.bench.simulated import in_parallel
from tests.bench.writers import WRITERS, Written, ask, in_turns, kinds_of, rows_of

EACH: Final = 32
TURNS: Final = 2
ALL: Final = WRITERS * EACH * TURNS
GPUS: Final = 4
"""A100s in the cluster: this many bookings share a day."""
LATE: Final = f"user-{ALL}"
_RULES: Final = [{"source": "kubernetes", "match": f"system:serviceaccount:{NAMESPACE}:(.+)", "user": r"\1"}]
_KINDS: Final = kinds_of(
    "cluster",
    f"{WRITERS} writers book over HTTP in a real cluster: tokens asked, Booking objects written",
    rate=Target(value=250, at_least=True),
    p99=Target(value=100),
    floor=f"bare creation of equal objects by {WRITERS} threads",
)
_CHART: Final = CHECKOUT / "charts/gpu-booking/files/bookings.yaml"
_FLOORS_GROUP: Final = "bench.example.org"


def measure(lab: Lab) -> Iterator[Row]:
    """In turns with bare objects."""
    standing = lab.standing
    _let_everybody_book(standing)
    tokens = _people(standing.cluster, [f"user-{number}" for number in range(ALL + 1)])
    yield from rows_of(_KINDS, *_booked(standing.cluster, tokens))
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


def _booked(cluster: Cluster, tokens: dict[str, str]) -> tuple[Written, Written]:
    lines = [http.client.HTTPConnection(cluster.address, booking_server.PORT) for _ in range(WRITERS)]

    def book(writer: int, number: int) -> None:
        place = number * WRITERS + writer
        answer = ask(lines[writer], tokens[f"user-{place}"], **_request(place // GPUS))
        if answer != HTTPStatus.CREATED:
            raise RuntimeError(f"A booking was answered with {answer}.")

    with closing(_Objects(cluster)) as objects:
        measured = in_turns(objects.write, book, turns=TURNS, each=EACH)
    late = ask(lines[0], tokens[LATE], **_request(0))
    for line in lines:
        line.close()
    if late != HTTPStatus.UNPROCESSABLE_ENTITY:
        raise RuntimeError(f"One booking more than there are GPUs was answered with {late}.")
    return measured


class _Objects:
    """The floor: a kind of our own with the schema of Bookings, since a Booking of no database stops ours."""

    def __init__(self, cluster: Cluster) -> None:
        definition = _CHART.read_text().replace(f"{BOOKINGS.group}\n", f"{_FLOORS_GROUP}\n")
        cluster.kubectl("apply", "--filename", "-", given=definition)
        name = f"{BOOKINGS.plural}.{_FLOORS_GROUP}"
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
        self._remove = partial(cluster.kubectl, "delete", "crd", name)
        self._path = f"/apis/{_FLOORS_GROUP}/{BOOKINGS.version}/{BOOKINGS.plural}"
        self._headers = {
            "Authorization": f"Bearer {cluster.administrator_token}",
            "Content-Type": "application/json",
        }
        address = urlsplit(cluster.api_server)
        trust = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._lines = [
            http.client.HTTPSConnection(address.hostname or "", address.port, context=trust)
            for _ in range(WRITERS)
        ]
        if not poll(lambda: self._created(0, "first") == HTTPStatus.CREATED, seconds=30):
            raise RuntimeError(f"No object of the floor can be created below {self._path}.")

    def write(self, writer: int, number: int) -> None:
        """Create one object."""
        status = self._created(writer, f"b-{writer}-{number}")
        if status != HTTPStatus.CREATED:
            raise RuntimeError(f"An object of the floor was answered with {status}.")

    def _created(self, writer: int, name: str) -> int:
        spec = fields_of(spec_of(record(name), store_id="floor"))
        given = {key: value for key, value in spec.items() if value is not None}
        body = {
            "apiVersion": f"{_FLOORS_GROUP}/{BOOKINGS.version}",
            "kind": BOOKINGS.kind,
            "metadata": {"name": name},
            "spec": given,
        }
        line = self._lines[writer]
        line.request("POST", self._path, json.dumps(body), self._headers)
        answer = line.getresponse()
        answer.read()
        return answer.status

    def close(self) -> None:
        """Remove the kind with its objects."""
        for line in self._lines:
            line.close()
        self._remove()


def record(name: str) -> Record:
    """A booking like those that are measured."""
    now = SystemClock().now().replace(microsecond=0)
    place = Place(node="node-a", count=1)
    return Record(
        id=name,
        user="user-1",
        model=A100,
        count=1,
        topology="any",
        namespace=None,
        start=now,
        end=now + timedelta(days=1),
        created=now,
        plan=(place,),
    )


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
