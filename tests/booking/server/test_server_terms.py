"""The running server follows its settings: what happens to pods, how often strangers may send requests."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from datetime import timedelta
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from re import sub
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

from booking.eviction import end_effects
from booking.eviction.settings import EndAction, EvictionSettings
from booking.server.__main__ import build, terms_of
from booking.server.records import Record
from booking.server.settings import ServerSettings
from booking.server.store import open_store
from booking.server.web.maia import SCHEDULABILITY, STATS
from cluster.fake.clock import START, FakeClock
from cluster.process.probes import Server, serve
from tests.booking.server.test_server import ended, free_port, settings
from tests.fakes.objects import A100

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

DAY: Final = timedelta(days=1)
ALICE: Final = "alice"
BOOKING: Final = "b-running"


def reviews(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
    """An API server that knows every token as its owner's name; all of them are administrators."""
    review = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
    spec = review.get("spec", {})
    if environ["PATH_INFO"].endswith("/tokenreviews"):
        user = {"username": spec["token"]}
        status = {"authenticated": True, "user": user, "audiences": spec["audiences"]}
    else:
        status = {"allowed": True}
    start_response("201 Created", [("Content-Type", "application/json")])
    return [json.dumps({**review, "status": status}).encode()]


@pytest.fixture
def api_server() -> Iterator[Server]:
    server = serve(reviews, "127.0.0.1", 0)
    yield server
    server.close()


@contextmanager
def running(folder: Path, api_server: Server, **more: str) -> Iterator[str]:
    """The server with these settings, as its process is built; its port."""
    port = free_port()
    process = build(
        settings(folder, PORT=port, KUBE_SERVER=f"http://127.0.0.1:{api_server.port}", **more), FakeClock()
    )
    try:
        yield port
    finally:
        assert ended(process) == 0


def ask(port: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """The answer that alice gets."""
    with closing(HTTPConnection("127.0.0.1", int(port), timeout=30)) as client:
        headers = {"Authorization": f"Bearer {ALICE}", "Content-Type": "application/json"}
        client.request(method, path, None if body is None else json.dumps(body), headers)
        got = client.getresponse()
        return got.status, got.read().decode()


def text_of(port: str, path: str) -> str:
    """The words of a page."""
    status, page = ask(port, "GET", path)
    assert status == 200, page
    return " ".join(unescape(sub(r"<[^>]+>", " ", page)).split())


def a_running_booking(folder: Path) -> None:
    """Alice's, in the database that the server is going to open."""
    record = Record(
        id=BOOKING,
        user=ALICE,
        model=A100,
        count=1,
        topology="any",
        namespace=None,
        start=START - DAY,
        end=START + DAY,
        created=START - DAY,
    )
    with closing(open_store(f"sqlite:///{folder / 'bookings.db'}")) as store:
        store.write(lambda writing: writing.add(record))


def test_every_setting_of_evictions_that_the_server_has_reaches_what_it_says_of_them() -> None:
    given: dict[str, Any] = {
        "namespace": "elsewhere",
        "maia": True,
        "restart_cost_seconds": 7.0,
        "dra_driver": "gpu.example.com",
        "end_action_without_controller": "delete",
        "end_action_with_controller": "delete",
    }
    shared = {field.name for field in fields(EvictionSettings)} & set(ServerSettings.__struct_fields__)
    assert given.keys() == shared
    assert terms_of(ServerSettings(**given)) == EvictionSettings(**given)


@pytest.mark.parametrize("owned", get_args(EndAction))
@pytest.mark.parametrize("bare", get_args(EndAction))
def test_page_and_rest_describe_the_ends_of_pods_as_the_settings_decide(
    tmp_path: Path, api_server: Server, bare: EndAction, owned: EndAction
) -> None:
    expected = end_effects.before(
        EvictionSettings(end_action_without_controller=bare, end_action_with_controller=owned)
    )
    a_running_booking(tmp_path)
    with running(
        tmp_path, api_server, END_ACTION_WITHOUT_CONTROLLER=bare, END_ACTION_WITH_CONTROLLER=owned
    ) as port:
        assert expected in text_of(port, "/mine")
        assert expected in text_of(port, "/admin/bookings")
        status, body = ask(port, "POST", f"/api/v1/bookings/{BOOKING}/release?dry_run=true", {})
        assert (status, json.loads(body)["pods"]) == (200, expected)


def test_by_default_bare_pods_come_back_without_a_gpu_and_others_stay(
    tmp_path: Path, api_server: Server
) -> None:
    a_running_booking(tmp_path)
    with running(tmp_path, api_server) as port:
        assert end_effects.before(EvictionSettings()) in text_of(port, "/mine")


def test_wrong_tokens_of_maia_do_not_use_up_the_rate_limit_of_other_requests(
    tmp_path: Path, api_server: Server
) -> None:
    token = tmp_path / "maia-token"
    token.write_text("secret")
    with running(tmp_path, api_server, MAIA_TOKEN_FILE=str(token), REQUEST_BURST="1") as port:
        guess = {"token": "guess"}
        assert [ask(port, "POST", SCHEDULABILITY, guess)[0] for _ in range(2)] == [403, 429]
        # The cluster is still unknown; a rate limit would be another answer.
        assert ask(port, "GET", STATS[0])[0] == 503
        assert ask(port, "GET", STATS[0])[0] == 429
        assert ask(port, "GET", "/api/v1")[0] == 200
