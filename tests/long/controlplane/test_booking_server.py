"""The booking server against a real API server: users of tokens, and accepted Booking objects."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from prometheus_client import CollectorRegistry

from booking.server.__main__ import build
from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import Mirror
from booking.server.settings import ServerSettings
from booking.server.web.roles import ADMINISTER, BOOKINGS_RIGHT, Roles
from cluster import names
from cluster.decide.identity import Rule
from cluster.fake.clock import eventually
from cluster.kube.access_review import AccessReviews
from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection
from cluster.kube.resources import BOOKINGS, LEASES
from cluster.kube.token_review import Subject, TokenReviews
from cluster.objects.bookings import Booking
from cluster.objects.inventory import encode_inventory
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.product import chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.booking.server.mirror.memory_source import MemorySource, a_record
from tests.clusters import own
from tests.e2e.playground import PATIENCE
from tests.fakes.objects import A100, a100

pytestmark = pytest.mark.controlplane

CHART = Path(__file__).parents[3] / "charts" / "gpu-booking"
STAFF = frozenset({"gpu-staff"})
RESEARCH = Rule(source="kubernetes", match=r"system:serviceaccount:research:(.+)", user=r"\1")


class Token:
    """A token that stays."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str | None:
        return self._token

    def invalidate(self) -> None:
        """There is no other."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("server"), nodes=(NodeSpec(name="node-a"),))) as running:
        running.kubectl("apply", "--server-side", "-f", str(CHART / "files" / "bookings.yaml"))
        chart.await_established(running, f"crd/bookings.{names.DOMAIN}")
        running.kubectl("create", "namespace", names.NAMESPACE)
        running.kubectl("create", "namespace", "research")
        for user in ("alice", "bob"):
            running.kubectl("create", "serviceaccount", user, "-n", "research")
        inventory = encode_inventory((a100(0, "node-a"), a100(1, "node-a")))
        running.kubectl("annotate", "node", "node-a", f"{names.INVENTORY}={inventory}")
        yield running


@pytest.fixture(scope="module")
def kube(cluster: Cluster) -> Iterator[KubeClient]:
    credentials = Token(cluster.administrator_token)
    connection = Connection(server=cluster.api_server, ca_file=cluster.ca_file, credentials=credentials)
    client = KubeClient(connection, SystemClock(), user_agent="gpu-booking-tests/1")
    yield client
    client.close()


@pytest.fixture
def bookings(kube: KubeClient) -> Iterator["Objects"]:
    yield Objects(kube)
    for booking in kube.list(BOOKINGS).items:
        kube.delete(BOOKINGS, booking.name)


class Objects:
    """The Booking objects in the cluster."""

    def __init__(self, kube: KubeClient) -> None:
        self.kube = kube

    def all(self) -> dict[str, Booking]:
        return {booking.name: booking for booking in self.kube.list(BOOKINGS).items}

    def mirror(self, source: MemorySource) -> Mirror:
        clock = SystemClock()
        lease = MirrorLease(self.kube, clock, namespace=names.NAMESPACE, holder="tests")
        return Mirror(self.kube, source, clock, lease=lease, metrics=ServerMetrics(CollectorRegistry()))


def person_token(cluster: Cluster, user: str, audience: str | None) -> str:
    audiences = [f"--audience={audience}"] if audience else []
    return cluster.kubectl("create", "token", user, "-n", "research", *audiences).strip()


class TestTokens:
    def test_a_token_of_our_audience_identifies_its_user(self, cluster: Cluster, kube: KubeClient) -> None:
        token = person_token(cluster, "alice", names.AUDIENCE)

        owner = TokenReviews(kube, (names.AUDIENCE,)).owner_of(token)
        assert owner is not None
        assert owner.name == "system:serviceaccount:research:alice"
        assert "system:serviceaccounts:research" in owner.groups

    @pytest.mark.parametrize("audience", ["another", None], ids=["another", "the API server's"])
    def test_a_token_of_another_audience_identifies_no_user(
        self, cluster: Cluster, kube: KubeClient, audience: str | None
    ) -> None:
        token = person_token(cluster, "alice", audience)

        assert TokenReviews(kube, (names.AUDIENCE,)).owner_of(token) is None

    def test_the_administrators_token_for_the_api_server_identifies_no_user(
        self, cluster: Cluster, kube: KubeClient
    ) -> None:
        assert TokenReviews(kube, (names.AUDIENCE,)).owner_of(cluster.administrator_token) is None

    def test_an_invalid_token_identifies_no_user(self, kube: KubeClient) -> None:
        assert TokenReviews(kube, (names.AUDIENCE,)).owner_of("a.b.c") is None


class TestRoles:
    def test_the_verb_makes_an_administrator_by_name_or_by_group(
        self, cluster: Cluster, kube: KubeClient
    ) -> None:
        role = f"--resource=bookings.{names.DOMAIN}"
        cluster.kubectl("create", "clusterrole", "booking-administrators", f"--verb={ADMINISTER}", role)
        for flag, name in (("--user", "oidc:alice"), ("--group", "gpu-staff")):
            words = ("create", "clusterrolebinding", f"administer-{name}".replace(":", "-"))
            cluster.kubectl(*words, "--clusterrole=booking-administrators", f"{flag}={name}")
        roles = Roles(AccessReviews(kube), SystemClock())

        def may(name: str, *groups: str) -> bool:
            return roles.is_administrator(Subject(name, frozenset(groups)))

        eventually(lambda: AccessReviews(kube).may(Subject("oidc:alice"), ADMINISTER, **BOOKINGS_RIGHT))
        eventually(lambda: AccessReviews(kube).may(Subject("x", STAFF), ADMINISTER, **BOOKINGS_RIGHT))
        assert may("oidc:alice")
        assert may("oidc:bob", "gpu-staff", "others")
        assert not may("oidc:bob", "others")
        assert may("root", "system:masters")


class TestMirror:
    def test_objects_are_created_changed_and_deleted(self, bookings: Objects) -> None:
        source = MemorySource()
        mirror = bookings.mirror(source)
        source.put(a_record("b-1", namespace="research", topology="single-node", count=2))
        source.put(a_record("b-2"))
        now = SystemClock().now().replace(microsecond=0)
        source.put(a_record("b-1", start=now, end=now.replace(year=now.year + 1)))
        source.put(a_record("b-2", start=now, end=now.replace(year=now.year + 1), namespace="research"))
        assert mirror.round()
        made = bookings.all()
        assert sorted(made) == ["b-1", "b-2"]
        assert (made["b-2"].spec.namespace, made["b-2"].spec.store_id) == ("research", "ours")

        bookings.kube.patch(BOOKINGS, "b-2", {"status": {"ending": ["a-pod"]}}, subresource="status")
        shorter = now.replace(year=now.year + 1, month=1, day=1)
        source.put(a_record("b-2", start=now, end=shorter))
        source.put(a_record("b-1", start=now, end=shorter, cancelled=now))
        assert mirror.round()
        (left,) = bookings.all().values()
        assert (left.name, left.spec.end, left.spec.namespace) == ("b-2", shorter, None)
        assert left.status.ending == ("a-pod",)

        version = left.metadata.resource_version
        assert mirror.round()
        assert bookings.all()["b-2"].metadata.resource_version == version
        lease = bookings.kube.get(LEASES, names.MIRROR_LEASE, namespace=names.NAMESPACE)
        assert lease.metadata.annotation(names.CHANGE) == str(source.changes)

    def test_l9_objects_of_another_database_are_left_alone(self, bookings: Objects) -> None:
        now = SystemClock().now().replace(microsecond=0)
        theirs = MemorySource("theirs")
        theirs.put(a_record("b-old", start=now, end=now.replace(year=now.year + 1)))
        assert bookings.mirror(theirs).round()
        mirror = bookings.mirror(MemorySource("ours"))

        assert not mirror.round()
        assert mirror.is_stopped
        assert list(bookings.all()) == ["b-old"]


class Server:
    """A running booking server."""

    def __init__(self, port: int, probe_port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1/bookings"
        self.ready_url = f"http://127.0.0.1:{probe_port}/readyz"
        self.pool = urllib3.PoolManager()

    def ready(self) -> bool:
        return self.pool.request("GET", self.ready_url, retries=False).status == 200

    def ask(self, method: str, token: str, *, path: str = "", json: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"}
        answer = self.pool.request(method, self.url + path, headers=headers, json=json, retries=False)
        return answer.status, answer.json()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path, bookings: Objects) -> Iterator[Server]:
    assert not bookings.all()
    token = tmp_path / "token"
    token.write_text(cluster.administrator_token)
    settings = ServerSettings(
        host="127.0.0.1",
        port=free_port(),
        probe_host="127.0.0.1",
        probe_port=free_port(),
        database=f"sqlite:///{tmp_path / 'bookings.db'}",
        identity_rules=(RESEARCH,),
        kube_server=cluster.api_server,
        kube_ca_file=cluster.ca_file,
        kube_token_file=token,
    )
    process = build(settings, SystemClock())
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    running = Server(settings.port, settings.probe_port)
    eventually(running.ready, deadline=PATIENCE)
    yield running
    process.end("the test is over")
    thread.join(30)
    assert not thread.is_alive()
    running.pool.clear()


def test_alice_books_shows_and_releases_with_her_own_token(
    cluster: Cluster, server: Server, bookings: Objects
) -> None:
    alice, bob = (person_token(cluster, user, names.AUDIENCE) for user in ("alice", "bob"))

    status, booked = server.ask("POST", alice, json={"model": A100, "count": 2, "duration": "P2D"})
    assert (status, booked["mirrored"], booked["user"]) == (201, True, "alice")
    spec = bookings.all()[booked["id"]].spec
    assert (spec.user, spec.model, spec.count, spec.topology) == ("alice", A100, 2, "single-node")

    status, refused = server.ask("POST", bob, json={"model": A100, "duration": "P1D"})
    assert (status, [v["rule"] for v in refused["violations"]]) == (422, ["capacity"])
    assert server.ask("GET", bob, path=f"/{booked['id']}")[0] == 404
    assert server.ask("GET", person_token(cluster, "alice", None))[0] == 401

    status, released = server.ask("POST", alice, path=f"/{booked['id']}/release")
    assert (status, released["mirrored"]) == (200, True)
    assert bookings.all()[booked["id"]].spec.end < spec.end
    # It ends with the second in which it was released.
    eventually(
        lambda: server.ask("POST", bob, json={"model": A100, "duration": "P1D"})[0] == 201, deadline=PATIENCE
    )


def test_a_booking_during_an_outage_is_not_confirmed_until_it_is_in_the_cluster(
    cluster: Cluster, server: Server, bookings: Objects
) -> None:
    alice = person_token(cluster, "alice", names.AUDIENCE)
    assert server.ask("GET", alice)[1] == {"bookings": []}
    cluster.pause("kube-apiserver")
    try:
        status, booked = server.ask("POST", alice, json={"model": A100, "duration": "P2D"})
        assert (status, booked["mirrored"]) == (202, False)
    finally:
        cluster.resume("kube-apiserver")

    eventually(lambda: booked["id"] in bookings.all() and server.ready(), deadline=PATIENCE)
    status, released = server.ask("POST", alice, path=f"/{booked['id']}/release")
    assert (status, released["mirrored"]) == (200, True)
