"""The HTTP endpoints of a process (``/livez``, ``/healthz``, ``/readyz``, ``/metrics``); serves WSGI apps.

A check is a callable that returns None, or a message about what is wrong. The response is 200, or 503 with
the messages, so ``kubectl describe`` shows why the probe fails.
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import CollectorRegistry
from waitress import wasyncore
from waitress.server import create_server

from cluster.process.clock import SystemClock
from cluster.process.metrics import render

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""Returns None if all is well, otherwise a message."""

PATHS: Final = ("/livez", "/healthz", "/readyz", "/metrics")

LONGEST_BODY_BYTES: Final = 8 * 1024 * 1024
"""A pod and the names of some thousand nodes need less than 1 MiB."""
LONGEST_ANSWER_SECONDS: Final = 5
IDLE_SECONDS: Final = 120
SLOWEST_REQUEST_SECONDS: Final = 20.0
"""For head and body. A client that has not sent all of them by then is cut off, even while it sends."""
BACKLOG: Final = 1024
CONNECTIONS: Final = 400
"""Maximum number of simultaneous connections. More do not block the rest: those that wait longest are cut
off. Two servers of a process stay below 1024 open files, the limit of some container runtimes."""
_ROOM: Final = 40
"""Number of connections to leave free for the next clients."""
_REPORTED_EVERY: Final = 60.0
"""Seconds between two log lines about connections that are cut off."""
RECEIVED_AT_ONCE: Final = 256 * 1024
"""Bytes to read at once: the names of some thousand nodes then arrive in one piece, not in twenty."""

_TEXT: Final = "text/plain; charset=utf-8"


class Probes:
    """A WSGI app for the kubelet and Prometheus."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        alive: Mapping[str, Check] | None = None,
        healthy: Mapping[str, Check] | None = None,
        ready: Mapping[str, Check] | None = None,
    ) -> None:
        """A missing check never fails.

        Args:
            registry: the metrics.
            alive: checks for problems that a restart would solve; by default the same as ``healthy``.
            healthy: checks for problems that a person should investigate.
            ready: checks that must pass before requests are sent to us.
        """
        self._registry = registry
        self._checks = {
            "/livez": dict((healthy if alive is None else alive) or {}),
            "/healthz": dict(healthy or {}),
            "/readyz": dict(ready or {}),
        }

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer ``/livez``, ``/readyz``, ``/healthz`` and ``/metrics``."""
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
        troubles = failures_of(self._checks[path])
        status = HTTPStatus.SERVICE_UNAVAILABLE if troubles else HTTPStatus.OK
        return status, text, ("\n".join(troubles) or "ok").encode() + b"\n"


def failures_of(checks: Mapping[str, Check]) -> list[str]:
    """The failures, as ``name: message``; a check that raises is a failure, too."""
    troubles = []
    for name, check in checks.items():
        try:
            problem = check()
        except Exception:
            log.exception("a health check raised an error", check=name)
            problem = "the check itself failed, see the log"
        if problem is not None:
            troubles.append(f"{name}: {problem}")
    return troubles


class ServeError(OSError):
    """A server cannot be started, for example because its address is taken."""

    def __str__(self) -> str:
        return str(self.strerror or super().__str__())


class Server:
    """A WSGI app on a port, served by threads of this process. See ``serve``."""

    def __init__(
        self, app: "WSGIApplication", listening: socket.socket, patience: float, **adjustments: object
    ) -> None:
        self.port: Final[int] = listening.getsockname()[1]
        """The port that it really listens on."""
        self._patience = patience
        self._clock = SystemClock()
        self._begun: dict[object, float] = {}
        """Incomplete request -> when its first part arrived."""
        self._reported_at = -_REPORTED_EVERY
        """When it was last logged that connections are cut off to make room."""
        self._map: dict[int, Any] = {}
        # The published types of waitress have neither sockets nor its trigger.
        create: Any = create_server
        self._waitress: Any = create(app, map=self._map, sockets=[listening], **adjustments)
        self._closing = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"http-{self.port}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer the requests in progress, then end every connection."""
        if self._closed:
            return
        self._closed = True
        self._waitress.task_dispatcher.shutdown(cancel_pending=True, timeout=LONGEST_ANSWER_SECONDS)
        self._closing.set()
        self._waitress.trigger.pull_trigger()
        self._thread.join()
        # Sockets are closed only now that no thread uses them: before, a descriptor that is closed here could
        # already belong to another connection when the other thread writes to it.
        wasyncore.close_all(self._map, ignore_all=True)

    def _run(self) -> None:
        adjustments = self._waitress.adj
        while not self._closing.is_set():
            wasyncore.loop(
                timeout=adjustments.asyncore_loop_timeout,
                use_poll=adjustments.asyncore_use_poll,
                map=self._map,
                count=1,
            )
            self._cut_off_the_slow()
            self._make_room()

    def _cut_off_the_slow(self) -> None:
        now = self._clock.monotonic()
        channels = [one for one in self._waitress.active_channels.values() if one.request is not None]
        self._begun = {one.request: self._begun.get(one.request, now) for one in channels}
        for one in channels:
            if now - self._begun[one.request] > self._patience:
                one.will_close = True

    def _make_room(self) -> None:
        """Cut off connections whose requests are not being answered, the oldest first.

        Otherwise silent connections could end all service, including the kubelet's probes: waitress accepts
        no connection above its limit.
        """
        channels = [one for one in self._waitress.active_channels.values() if not one.will_close]
        too_many = len(channels) - (CONNECTIONS - _ROOM)
        if too_many <= 0:
            return
        waiting = [one for one in channels if not one.requests]
        for one in waiting[: too_many + _ROOM]:
            one.will_close = True
        now = self._clock.monotonic()
        if now - self._reported_at >= _REPORTED_EVERY:
            self._reported_at = now
            addresses = Counter(str(one.addr[0]) for one in channels).most_common(3)
            log.warning(
                "too many connections: the oldest idle ones are closed",
                port=self.port,
                busiest_clients=dict(addresses),
            )


def serve(
    app: "WSGIApplication",
    host: str,
    port: int,
    *,
    threads: int = 4,
    longest_body: int = LONGEST_BODY_BYTES,
    slowest_request: float = SLOWEST_REQUEST_SECONDS,
    keep_forwarded: bool = False,
) -> Server:
    """Serve a WSGI app until the server is closed.

    Idle connections are kept for two minutes: longer than the 90 s of Go's clients, so that we never close
    one that a client is about to use. An exception of the app becomes a 500 without a traceback.

    Args:
        app: called by several threads at once.
        host: an IP address; ``0.0.0.0`` or ``::`` for all.
        port: 0 for a free one.
        threads: number of requests that are answered at the same time.
        longest_body: bytes; a longer request is answered with 413.
        slowest_request: seconds in which a request must be complete.
        keep_forwarded: leave headers like ``X-Forwarded-For`` in the request, for an app that knows which
            proxies to trust.

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
        slowest_request,
        threads=threads,
        recv_bytes=RECEIVED_AT_ONCE,
        connection_limit=CONNECTIONS,
        # select() cannot handle a descriptor above 1023.
        asyncore_use_poll=True,
        max_request_body_size=longest_body,
        channel_timeout=IDLE_SECONDS,
        expose_tracebacks=False,
        ident="",
        clear_untrusted_proxy_headers=not keep_forwarded,
    )
