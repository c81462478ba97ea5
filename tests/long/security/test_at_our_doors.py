"""Everybody tries at our own servers what they must not: refused, and reported to administrators."""

import json
import socket
import sqlite3
import ssl
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import urllib3

from booking.server.web.problems import FORBIDDEN
from cluster import names
from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from devcluster.daemons import Daemon
from devcluster.demo.rest import Rest
from devcluster.product import booking_controller, booking_server, extender, node_agent
from tests.e2e.playground import PATIENCE
from tests.long.controlplane.policies.policed import HOME, US, Somebody, a_pod, pods
from tests.long.security.conftest import HURRIED, SHOWN_BY_MAIA, Site

pytestmark = pytest.mark.controlplane

ADDRESS = "bob.the.builder@example.org"
HTTP = urllib3.PoolManager(retries=False, timeout=60)
REFUSED = "a request was refused"
LONG = 24
"""Letters that nobody writes by chance."""
LISTENING = {
    booking_server.NAME: {booking_server.PORT: "0.0.0.0", booking_server.PORT + 1: "0.0.0.0"},
    booking_controller.NAME: {booking_controller.PORT: "0.0.0.0", booking_controller.PORT + 1: "0.0.0.0"},
    extender.NAME: {extender.PORT: "127.0.0.1", extender.PORT + 1: "0.0.0.0"},
    f"node-a/{node_agent.NAME}": {node_agent.FIRST_PORT: "0.0.0.0"},
}
"""Where we listen: as docs/security.md lists it."""


@pytest.fixture(scope="module")
def alice(site: Site) -> Rest:
    return Rest(site.parts.booking_url, site.parts.people.token("alice", names.AUDIENCE))


@pytest.fixture(scope="module")
def bob(site: Site) -> Rest:
    return Rest(site.parts.booking_url, site.parts.people.token("bob", names.AUDIENCE))


@pytest.fixture(scope="module")
def theirs(site: Site) -> str:
    """A booking of bob's, whose e-mail address is known."""
    now = int(SystemClock().now().timestamp())
    with closing(sqlite3.connect(site.parts.database, timeout=60)) as database, database:
        database.execute('INSERT INTO people ("user", email, at) VALUES (?, ?, ?)', ("bob", ADDRESS, now))
    return site.theirs


def operations(rest: Rest, booking: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every address of the REST API: method, path, and what its document says."""
    for path, methods in rest.ask("GET", "/openapi.json").body["paths"].items():
        short = path.removeprefix("/api/v1").replace("{id}", booking)
        for method, operation in methods.items():
            yield method.upper(), short, operation


def lines(daemon: Daemon, event: str) -> list[dict[str, object]]:
    """What it has said of something."""
    found = (json.loads(line) for line in daemon.log.read_text().splitlines() if line.startswith("{"))
    return [line for line in found if line.get("event") == event]


# --- who may ask -----------------------------------------------------------------------------------------
def test_without_a_token_only_the_public_paths_are_answered(alice: Rest, theirs: str) -> None:
    answered = set()
    for method, path, operation in operations(alice, theirs):
        answer = HTTP.request(method, f"{alice.url}/api/v1{path}")
        if operation.get("security") == []:
            answered.add(path)
        else:
            assert answer.status == 401, (method, path)
            assert b"bob" not in answer.data
    assert answered == {"", "/openapi.json"}


def test_a_leaked_token_for_the_api_server_is_worth_nothing_to_us(
    site: Site, alice: Rest, theirs: str
) -> None:
    cluster = site.cluster
    stolen = (
        site.parts.people.token("alice"),
        site.parts.people.token("alice", "another"),
        cluster.service_account_token(US, names.CONTROLLER),
        cluster.administrator_token,
    )
    for token in stolen:
        for path in ("/me", "/bookings", f"/bookings/{theirs}"):
            assert Rest(alice.url, token).ask("GET", path).status == 401
    assert [line["status"] for line in lines(site.parts.server(), REFUSED)].count(401) >= len(stolen)


def test_a_leaked_token_for_us_is_worth_nothing_to_the_api_server(site: Site) -> None:
    stolen = Somebody(site.cluster, site.parts.people.token("alice", names.AUDIENCE))
    assert stolen.get(pods()).status == 401
    assert stolen.get("/api").status == 401


def test_requests_that_only_administrators_may_make_are_refused_to_a_user_and_reported(
    site: Site, alice: Rest, theirs: str
) -> None:
    attempts = 0
    for method, path, operation in operations(alice, theirs):
        if FORBIDDEN.uri in json.dumps(operation["responses"].get("403", "")) and theirs not in path:
            attempts += 1
            assert alice.ask(method, path, {} if method in {"POST", "PATCH"} else None).status == 403
    logged = [line for line in lines(site.parts.server(), REFUSED) if line["user"] == "alice"]
    assert len(logged) >= attempts >= 5
    assert {line["address"] for line in logged} == {site.cluster.host_address}


def test_l7_a_user_who_forges_a_cover_annotation_is_reported(site: Site) -> None:
    forged = a_pod(generateName="p-", annotations={names.USER: "bob", names.BOOKING: site.theirs})
    assert names.USER not in site.people.alice.create(pods(), forged, dry=True).annotations
    logged = lines(site.parts.controller(), "reserved keys were removed from a new pod")
    assert [line["creator"] for line in logged] == [site.users["user"]]
    assert site.parts.metric(site.parts.controller(), "admission_reserved_keys_removed_total") == 1


# --- others' bookings and addresses ----------------------------------------------------------------------
def test_nobody_changes_the_bookings_of_others(alice: Rest, bob: Rest, theirs: str) -> None:
    shown = bob.show(theirs)
    assert shown.status == 200, shown
    before = shown.body
    for method, path, body in (
        ("PATCH", "", {"count": 2}),
        ("PATCH", "", {"end": "2999-01-01T00:00:00Z"}),
        ("POST", "/release", {}),
        ("DELETE", "", None),
    ):
        assert alice.ask(method, f"/bookings/{theirs}{path}", body).status in {403, 404}
    assert alice.ask("POST", "/bookings", {"user": "bob", "model": "NVIDIA-A100-SXM4-80GB"}).status in {
        400,
        403,
    }
    after = bob.show(theirs).body
    assert (after["state"], after["count"], after["end"]) == ("active", before["count"], before["end"])


def test_nobody_reads_anybodys_address_not_even_administrators(site: Site, alice: Rest, theirs: str) -> None:
    root = site.people.root
    words = ("create", "token", "administrator", f"--namespace={HOME}", f"--audience={names.AUDIENCE}")
    administrator = Rest(alice.url, site.cluster.kubectl(*words).strip())
    assert administrator.ask("GET", "/me").body["is_administrator"] is True
    for who in (alice, administrator):
        for method, path, _ in operations(alice, theirs):
            if method == "GET":
                assert ADDRESS not in json.dumps(who.ask(method, path).body), path
    objects = json.dumps(root.get(f"/apis/{names.DOMAIN}/v1/bookings").body)
    assert theirs in objects
    assert ADDRESS not in objects
    assert all(ADDRESS not in daemon.log.read_text() for daemon in parts_of(site))


def test_maias_addresses_ask_for_maias_own_token(site: Site) -> None:
    url = f"{site.parts.booking_url}/maia-api/gpu-schedulability"
    request = {"user_email": ADDRESS, "namespace": HOME}
    for token in ({}, {"token": ""}, {"token": "guessed"}, {"token": None}, {"token": [SHOWN_BY_MAIA]}):
        answer = HTTP.request("POST", url, json=request | token)
        assert answer.status == 403
        assert ADDRESS.encode() not in answer.data
    assert HTTP.request("POST", url, json=request | {"token": SHOWN_BY_MAIA}).status == 200
    assert [line for line in lines(site.parts.server(), REFUSED) if "maia" in str(line["endpoint"])]


# --- where we listen -------------------------------------------------------------------------------------
def test_every_part_listens_where_documented_and_nowhere_else(site: Site) -> None:
    assert {name: listening(site.cluster.daemon(name).pid) for name in LISTENING} == LISTENING


def listening(pid: int) -> dict[int, str]:
    """Port -> address of a process's listening TCP sockets."""
    own = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = {}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in own:
            address, _, port = local.partition(":")
            found[int(port, 16)] = socket.inet_ntoa(bytes.fromhex(address)[::-1])
    assert len(Path(f"/proc/{pid}/net/tcp6").read_text().splitlines()) >= 1
    return found


def test_nobody_reaches_the_verbs_of_the_extender_from_elsewhere(site: Site) -> None:
    for verb in ("filter", "prioritize", "preempt", "bind"):
        with pytest.raises(urllib3.exceptions.NewConnectionError):
            HTTP.request("POST", f"http://{site.cluster.address}:{extender.PORT}/{verb}", json={})


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1], ids=lambda v: v.name)
def test_tls_before_1_2_is_not_spoken(site: Site, version: ssl.TLSVersion) -> None:
    def shaken(at_most: ssl.TLSVersion) -> str | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, at_most
        address = (site.cluster.address, booking_controller.PORT)
        with socket.create_connection(address, timeout=60) as plain, context.wrap_socket(plain) as connection:
            return connection.version()

    assert shaken(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shaken(version)


def test_probes_and_metrics_name_nobody_but_holders_of_gpus_on_their_own_nodes(
    site: Site, alice: Rest, theirs: str
) -> None:
    assert alice.ask("GET", "/me").status == 200
    for daemon in parts_of(site):
        people = () if daemon.name.endswith(node_agent.NAME) else ("alice", "bob", theirs)
        for path in ("/healthz", "/readyz", "/metrics"):
            _, body = site.parts.ask(daemon, path)
            assert body
            assert not [word for word in (*people, ADDRESS, SHOWN_BY_MAIA) if word in body]


# --- too much, too slowly, too often ---------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_a_request_that_is_too_large_is_refused_and_reported(site: Site, alice: Rest) -> None:
    large = {"model": "x" * 3_000_000}
    assert alice.ask("POST", "/bookings", large).status == 413
    assert [line for line in lines(site.parts.server(), REFUSED) if line["status"] == 413]
    webhook = f"https://{site.cluster.address}:{booking_controller.PORT}/admit"
    unverified = urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=60)
    answer = unverified.request("POST", webhook, body=b"x" * 9_000_000)
    assert answer.status == 413
    assert site.parts.metric(site.parts.controller(), "admission_requests_total") > 0


def test_requests_that_never_end_block_no_other_client_and_are_cut_off(site: Site, alice: Rest) -> None:
    ports = [port for found in LISTENING.values() for port, host in found.items() if host == "0.0.0.0"]
    plain = [port for port in ports if port != booking_controller.PORT]
    with ExitStack() as crowd:
        slow = []
        for port in plain:
            for _ in range(150):
                one = crowd.enter_context(socket.create_connection((site.cluster.address, port), timeout=120))
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ")
                slow.append(one)
        assert alice.ask("GET", "/me").status == 200
        for daemon in parts_of(site):
            assert site.parts.ask(daemon, "/healthz")[0] == 200
        assert all(is_cut_off(one) for one in slow)


def is_cut_off(connection: socket.socket) -> bool:
    """Waits for the end of a connection."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionError:
        return True
    return True


def test_a_client_that_asks_too_often_is_refused_with_429_and_logged_once(site: Site) -> None:
    """By somebody who does nothing else: the other tests are to be answered."""
    hurried = Rest(site.parts.booking_url, site.parts.people.token(HURRIED, names.AUDIENCE))
    eventually(lambda: hurried.ask("GET", "/policy").status == 429, deadline=PATIENCE)
    for _ in range(5):
        hurried.ask("GET", "/policy")
    logged = lines(site.parts.server(), "a client exceeds its rate limit")
    assert [line["client"] for line in logged] == [HURRIED]


# --- secrets ---------------------------------------------------------------------------------------------
def test_no_secret_is_in_a_log_an_environment_or_a_command_line(site: Site, alice: Rest) -> None:
    """Whatever is shown to us, at the lowest level of the log."""
    shown = [
        site.parts.people.token("alice", names.AUDIENCE),
        site.parts.people.token("alice"),
        "guessed.token.of-carol",
    ]
    cookies: list[str] = []
    for token in shown:
        Rest(alice.url, token).ask("GET", "/me")
        page = {"Origin": alice.url}
        entered = HTTP.request(
            "POST", f"{alice.url}/login", fields={"token": token}, headers=page, encode_multipart=False
        )
        cookies += [one.partition("=")[2].partition(";")[0] for one in entered.headers.getlist("Set-Cookie")]
        HTTP.request("GET", f"{alice.url}/api/v1/me?token={token}", headers={"Cookie": f"x={token}"})
    HTTP.request("POST", f"{alice.url}/maia-api/gpu-schedulability", json={"token": SHOWN_BY_MAIA})
    kept = [path.read_text() for path in site.parts.folder.glob("*.token")]
    assert len(kept) >= 4
    sessions = [cookie for cookie in cookies if len(cookie) >= LONG]
    assert sessions
    for session in sessions:
        HTTP.request("GET", f"{alice.url}/", headers={"Cookie": f"session={session}"})
    secrets = [*shown, *kept, *sessions, *webhook_keys(site), SHOWN_BY_MAIA, site.cluster.administrator_token]
    for daemon in parts_of(site):
        process = Path(f"/proc/{daemon.pid}")
        for text in (
            daemon.log.read_text(),
            (process / "environ").read_text(),
            (process / "cmdline").read_text(),
        ):
            assert not [secret for secret in secrets if secret.rpartition(".")[2] in text]


def webhook_keys(site: Site) -> list[str]:
    """A line of each private key of the webhook, as it is and as a Secret has it."""
    data = site.people.root.get(f"/api/v1/namespaces/{US}/secrets/{names.WEBHOOK_KEYS}").body["data"]
    # The key of the next authority is there while one is being changed.
    keys = [value for key, value in data.items() if key.endswith(".key") and value]
    assert keys
    middles = [value[len(value) // 2 :][:LONG] for value in keys]
    return [*middles, *(b64decode(value).decode().splitlines()[1] for value in keys)]


def parts_of(site: Site) -> list[Daemon]:
    return [site.cluster.daemon(name) for name in LISTENING]
