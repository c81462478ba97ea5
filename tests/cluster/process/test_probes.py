import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import urllib3
from prometheus_client import CollectorRegistry

from cluster.fake.clock import eventually
from cluster.process.metrics import measured
from cluster.process.probes import CONNECTIONS, Probes, ServeError, Server, serve

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

HOST = "127.0.0.1"


class Checks:
    """Checks whose answers a test changes."""

    def __init__(self) -> None:
        self.alive: str | None = None
        self.synced: str | None = None

    def broken(self) -> str | None:
        raise RuntimeError("secret detail")


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
def server(checks: Checks) -> Iterator[Server]:
    registry = CollectorRegistry()
    measured(registry, "answer", "The answer.", lambda: 42.0)
    ready = {"pods": lambda: checks.synced, "nodes": lambda: None}
    app = Probes(registry, healthy={"watcher": lambda: checks.alive}, ready=ready)
    running = serve(app, HOST, 0, longest_body=1000)
    yield running
    running.close()


def ask(
    server: Server, path: str, method: str = "GET", body: bytes | None = None
) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager() as pool:
        return pool.request(method, f"http://{HOST}:{server.port}{path}", body=body or None, retries=False)


class TestProbes:
    @pytest.mark.parametrize("path", ["/livez", "/healthz", "/readyz"])
    def test_a_healthy_process_answers_200(self, server: Server, path: str) -> None:
        answer = ask(server, path)
        assert (answer.status, answer.data) == (200, b"ok\n")

    def test_an_unready_process_answers_503_with_the_message(self, server: Server, checks: Checks) -> None:
        checks.synced = "no list yet"
        answer = ask(server, "/readyz")
        assert (answer.status, answer.data) == (503, b"pods: no list yet\n")
        assert ask(server, "/healthz").status == 200

    def test_a_check_that_raises_answers_503_without_details(self, checks: Checks) -> None:
        app = Probes(CollectorRegistry(), healthy={"odd": checks.broken})
        running = serve(app, HOST, 0)
        answer = ask(running, "/healthz")
        running.close()
        assert (answer.status, answer.data) == (503, b"odd: the check itself failed, see the log\n")

    def test_a_process_without_a_liveness_check_is_live_while_it_is_healthy(
        self, server: Server, checks: Checks
    ) -> None:
        checks.alive = "stuck"
        assert ask(server, "/livez").data == ask(server, "/healthz").data == b"watcher: stuck\n"

    def test_a_fault_that_a_restart_cannot_repair_does_not_fail_liveness(self, checks: Checks) -> None:
        checks.synced = "the driver hangs"
        app = Probes(CollectorRegistry(), alive={}, healthy={"driver": lambda: checks.synced})
        running = serve(app, HOST, 0)
        answers = [ask(running, path).status for path in ("/livez", "/healthz")]
        running.close()
        assert answers == [200, 503]

    def test_metrics_are_served(self, server: Server) -> None:
        answer = ask(server, "/metrics")
        assert answer.status == 200
        assert b"gpu_booking_answer 42.0" in answer.data

    def test_the_answer_to_head_has_no_body(self, server: Server) -> None:
        answer = ask(server, "/healthz", "HEAD")
        assert (answer.status, answer.data) == (200, b"")

    def test_another_path_answers_404(self, server: Server) -> None:
        answer = ask(server, "/secrets")
        assert answer.status == 404
        assert b"/readyz" in answer.data

    def test_a_writing_method_answers_405(self, server: Server) -> None:
        answer = ask(server, "/readyz", "POST", b"x")
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")

    def test_a_body_that_is_too_long_answers_413(self, server: Server) -> None:
        assert ask(server, "/readyz", "POST", b"x" * 1001).status == 413


def fails(_environ: "WSGIEnvironment", _start_response: "StartResponse") -> Iterable[bytes]:
    raise RuntimeError("secret detail")


class TestServing:
    def test_an_exception_of_an_app_is_not_shown_to_the_client(self) -> None:
        server = serve(fails, HOST, 0)
        answer = ask(server, "/")
        server.close()
        assert answer.status == 500
        assert b"secret" not in answer.data
        assert b"Traceback" not in answer.data

    def test_a_closed_server_no_longer_answers_and_can_be_closed_again(self, server: Server) -> None:
        ask(server, "/healthz")
        server.close()
        server.close()
        with pytest.raises(urllib3.exceptions.HTTPError):
            ask(server, "/healthz")

    def test_closing_waits_for_the_thread_before_it_closes_the_trigger_that_wakes_it(self) -> None:
        server = serve(fails, HOST, 0)
        trigger = server._waitress.trigger
        pull = trigger._physical_pull

        def woken_by_somebody_else_first() -> None:
            pull()
            eventually(lambda: not server._thread.is_alive())
            pull()

        trigger._physical_pull = woken_by_somebody_else_first
        server.close()

        assert not server._thread.is_alive()

    def test_a_port_in_use_is_reported_in_a_message(self, server: Server) -> None:
        with pytest.raises(
            ServeError, match=f"Cannot listen on 127.0.0.1 port {server.port}: Address already"
        ):
            serve(fails, HOST, server.port)

    def test_idle_connections_do_not_keep_others_out(self, server: Server) -> None:
        """More of them than are served at one time, none of which ever sends a byte."""
        with ExitStack() as crowd:
            idle = [
                crowd.enter_context(socket.create_connection((HOST, server.port)))
                for _ in range(CONNECTIONS + 50)
            ]
            for _ in range(3):
                assert ask(server, "/readyz").status == 200
            assert idle[0].recv(1) == b"", "the oldest makes room for the newest"

    def test_unfinished_requests_do_not_keep_others_out(self, server: Server) -> None:
        with ExitStack() as crowd:
            for _ in range(CONNECTIONS + 50):
                slow = crowd.enter_context(socket.create_connection((HOST, server.port)))
                slow.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\nX-Slow: ")
            assert ask(server, "/readyz").status == 200
