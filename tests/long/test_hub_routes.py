"""A real JupyterHub leads to a notebook that has moved once it is told, not at its next check of routes."""

import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest
import urllib3
from prometheus_client import CollectorRegistry
from urllib3.exceptions import HTTPError

from booking.controller.hubs.hub import Hub
from booking.controller.hubs.hub_api import HttpHubApi, HubError
from booking.controller.hubs.returned_notebooks import ReturnedNotebooks
from booking.controller.hubs.route_checks import RouteChecks
from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from tests.booking.controller.hubs.test_returned_notebooks import a_notebook
from tests.e2e.playground import PATIENCE

pytestmark = pytest.mark.component

CONFIG: Final = Path(__file__).parent / "actors" / "jupyterhub_config.py"
BEFORE, AFTER = "127.0.0.1", "127.0.0.2"


class _Notebook(BaseHTTPRequestHandler):
    """Answers as a notebook that lives."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@dataclass
class Running:
    """A hub with one user's notebook."""

    hub: Hub
    host: Path

    def api(self) -> HttpHubApi:
        return HttpHubApi(self.hub)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((BEFORE, 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("hub")
    notebook = ThreadingHTTPServer((BEFORE, 0), _Notebook)
    moved = ThreadingHTTPServer((AFTER, notebook.server_address[1]), _Notebook)
    for server in (notebook, moved):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    host, token, port = folder / "host", folder / "token", free_port()
    host.write_text(BEFORE)
    token.write_text(secrets.token_hex(16))
    starters = secrets.token_hex(16)
    environment = {
        **os.environ,
        "HUB_PORT": str(port),
        "NOTEBOOK_PORT": str(notebook.server_address[1]),
        "NOTEBOOK_HOST_FILE": str(host),
        "OUR_TOKEN": token.read_text(),
        "STARTERS_TOKEN": starters,
    }
    argv = [sys.executable, "-m", "jupyterhub", "-f", str(CONFIG), "--upgrade-db"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        url = f"http://{BEFORE}:{port}/hub/api"
        _start_notebook(url, starters)
        yield Running(Hub(url=url, token_file=token), host)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        for server in (notebook, moved):
            server.shutdown()
            server.server_close()


def _start_notebook(url: str, token: str) -> None:
    pool = urllib3.PoolManager(retries=False, timeout=30, headers={"Authorization": f"token {token}"})

    def answers() -> bool:
        try:
            return pool.request("GET", url).status == 200
        except HTTPError:
            return False

    eventually(answers, deadline=PATIENCE)
    assert pool.request("POST", f"{url}/users/alice").status == 201
    assert pool.request("POST", f"{url}/users/alice/server").status in {201, 202}


def test_a_hub_leads_to_a_moved_notebook_once_it_has_been_informed(running: Running) -> None:
    clock, registry = SystemClock(), CollectorRegistry()
    api = running.api()
    eventually(lambda: api.hosts() == {BEFORE}, deadline=PATIENCE)
    returned = ReturnedNotebooks(clock)
    checks = RouteChecks(((running.hub, api),), returned, clock, leads=lambda: True, registry=registry)
    stop = threading.Event()
    thread = threading.Thread(target=checks.run, args=(stop,))
    thread.start()
    try:
        running.host.write_text(AFTER)
        returned.upsert(a_notebook(address=AFTER))
        eventually(lambda: not returned.waiting, deadline=PATIENCE)
        assert AFTER in api.hosts()
    finally:
        stop.set()
        thread.join()
    assert registry.get_sample_value("gpu_booking_controller_hub_notebooks_total", {"outcome": "routed"}) == 1


def test_a_token_that_the_hub_does_not_accept_is_a_sentence(running: Running, tmp_path: Path) -> None:
    wrong = tmp_path / "token"
    wrong.write_text("wrong")
    with pytest.raises(HubError, match="a service's token with the scope proxy"):
        HttpHubApi(Hub(url=running.hub.url, token_file=wrong)).check_routes()
    with pytest.raises(HubError, match="cannot be read"):
        HttpHubApi(Hub(url=running.hub.url, token_file=tmp_path / "none")).check_routes()


def test_a_hub_that_is_away_is_a_sentence(running: Running) -> None:
    away = Hub(url=f"http://{BEFORE}:{free_port()}/hub/api", token_file=running.hub.token_file)
    with pytest.raises(HubError, match="does not answer"):
        HttpHubApi(away).check_routes()
