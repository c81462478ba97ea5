"""What a process tells over HTTP: ``/healthz``, ``/readyz``, ``/metrics``; and the server for WSGI apps.

A check is a callable that returns None, or a sentence of what is wrong. The answer is 200, or 503 with the
sentences: whoever reads the probe's failure in ``kubectl describe`` knows why.
"""

import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import CollectorRegistry
from waitress import wasyncore
from waitress.server import create_server

from cluster.runtime.metrics import render

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""None when all is well, otherwise a sentence."""

PATHS: Final = ("/healthz", "/readyz", "/metrics")

LONGEST_BODY_BYTES: Final = 8 * 1024 * 1024
"""A pod and the names of some thousand nodes need less than one."""
LONGEST_ANSWER_SECONDS: Final = 5
IDLE_SECONDS: Final = 120
BACKLOG: Final = 1024

_TEXT: Final = "text/plain; charset=utf-8"


class Probes:
    """A WSGI app for the kubelet and Prometheus."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        healthy: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
    ) -> None:
        """Args: healthy: what a restart would mend; ready: what must be well before we are asked anything."""
        self._registry = registry
        self._checks = {"/healthz": dict(healthy or {}), "/readyz": dict(ready or {})}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request."""
        status, headers, body = self._answer(environ)
        content_length = ("Content-Length", str(len(body)))
        start_response(f"{status.value} {status.phrase}", [*headers, content_length])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: "WSGIEnvironment") -> tuple[HTTPStatus, list[tuple[str, str]], bytes]:
        path = environ.get("PATH_INFO", "")
        text = [("Content-Type", _TEXT)]
        if path not in PATHS:
            return HTTPStatus.NOT_FOUND, text, f"There is nothing here but {', '.join(PATHS)}.\n".encode()
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            allow = ("Allow", "GET, HEAD")
            return HTTPStatus.METHOD_NOT_ALLOWED, [*text, allow], f"{path} can only be read.\n".encode()
        if path == "/metrics":
            content_type, body = render(self._registry, environ.get("HTTP_ACCEPT", ""))
            return HTTPStatus.OK, [("Content-Type", content_type)], body
        troubles = troubles_of(self._checks[path])
        status = HTTPStatus.SERVICE_UNAVAILABLE if troubles else HTTPStatus.OK
        return status, text, ("\n".join(troubles) or "ok").encode() + b"\n"


def troubles_of(checks: Mapping[str, Check]) -> list[str]:
    """What is wrong, as ``name: sentence``; a check that fails is itself trouble."""
    troubles = []
    for name, check in checks.items():
        try:
            trouble = check()
        except Exception:
            log.exception("a check failed", check=name)
            trouble = "the check itself failed, see the log"
        if trouble is not None:
            troubles.append(f"{name}: {trouble}")
    return troubles


class ServeError(OSError):
    """The address cannot be listened on."""


class Server:
    """A WSGI app on a port, served by threads of this process. See ``serve``."""

    def __init__(self, app: "WSGIApplication", listening: socket.socket, **adjustments: object) -> None:
        self.port: Final[int] = listening.getsockname()[1]
        """The port that it really listens on."""
        self._map: dict[int, Any] = {}
        # The published types of waitress know neither sockets nor its trigger.
        create: Any = create_server
        self._waitress: Any = create(app, map=self._map, sockets=[listening], **adjustments)
        self._thread = threading.Thread(target=self._waitress.run, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer what was begun, then end every connection."""
        if not self._thread.is_alive():
            return
        self._waitress.task_dispatcher.shutdown(cancel_pending=True, timeout=LONGEST_ANSWER_SECONDS)
        # Only the server's own thread may touch its sockets; without any it ends.
        self._waitress.trigger.pull_trigger(lambda: wasyncore.close_all(self._map, ignore_all=True))
        self._thread.join(LONGEST_ANSWER_SECONDS)


def serve(
    app: "WSGIApplication",
    host: str,
    port: int,
    *,
    threads: int = 4,
    longest_body: int = LONGEST_BODY_BYTES,
) -> Server:
    """Serve a WSGI app until the server is closed.

    Idle connections are kept for two minutes: longer than the 90 s of Go's clients, so that it is never us
    who closes one that is being used. What the app raises becomes a 500 without any traceback.

    Args:
        app: called by several threads at once.
        host: an IP address, ``0.0.0.0`` or ``::`` for all.
        port: 0 for a free one.
        threads: requests that are answered at the same time.
        longest_body: bytes; a longer request is answered with 413.

    Raises:
        ServeError: the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ServeError(error.errno, f"Cannot listen on {host} port {port}: {error.strerror}") from error
    return Server(
        app,
        listening,
        threads=threads,
        max_request_body_size=longest_body,
        channel_timeout=IDLE_SECONDS,
        expose_tracebacks=False,
        ident="",
        clear_untrusted_proxy_headers=True,
    )
