"""HTTPS for an ASGI app inside this process, because the cache behind its answers must not be forked.

Uvicorn runs in the event loop of one thread of ours; idle and slow clients do not delay others. For a new
certificate there is a new TLS context, which all later handshakes use; open connections continue, so a
rotation costs no request (ADR 19).

Clients may need a certificate, too (mutual TLS): one that a given authority has signed for one of the given
names. Any other client is cut off before a byte of its request is read, and the log names client and reason.
A client that does not complete its request in time is cut off.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cluster.process.certificates import AllowedClients, KeyPair, names_in
from cluster.process.clock import Clock
from cluster.process.probes import IDLE_SECONDS, SLOWEST_REQUEST_SECONDS, ServeError
from cluster.process.tls_handshakes import Listening, a_context, handshakes

App = Callable[[Any, Any, Any], Awaitable[None]]
"""ASGI 3: ``(scope, receive, send)``."""

log = structlog.get_logger(__name__)

BACKLOG: Final = 1024
STARTS_WITHIN: Final = 10.0
"""Seconds in which the server must have started."""
ENDS_WITHIN: Final = 3
"""Seconds that requests in progress have to end."""


class TlsServer:
    """An ASGI app on a port. It answers once it has its first certificate (``present``)."""

    def __init__(
        self,
        app: App,
        clock: Clock,
        *,
        host: str,
        port: int,
        clients: AllowedClients | None = None,
        slowest_request: float = SLOWEST_REQUEST_SECONDS,
    ) -> None:
        """Reserve the port.

        Args:
            app: answers the requests.
            clock: for timeouts.
            host: an IP address; ``0.0.0.0`` or ``::`` for all.
            port: 0 for a free one.
            clients: the allowed clients; None for every client, without a certificate.
            slowest_request: seconds in which a request must be complete.

        Raises:
            ServeError: the address is taken or not ours, or ``clients`` has no authority in PEM.
        """
        self._app = app
        self._clock = clock
        self._lock = threading.Lock()
        self._closed = False
        self._clients = clients
        self._slowest_request = slowest_request
        try:
            a_context(None, clients)
        except ssl.SSLError as error:
            why = f"The authorities of the clients are not certificates in PEM: {error}."
            raise ServeError(why) from error
        self._handshakes = handshakes(clock)
        self._serving: _Serving | None = None
        self._reserved = reserved_socket(host, port)
        self._host = host
        self.port: Final[int] = self._reserved.getsockname()[1]

    def present(self, pair: KeyPair, clients: AllowedClients | None = None) -> None:
        """Serve with this certificate from now on; returns when it is served.

        Args:
            pair: the certificate and its key.
            clients: the clients that are allowed from now on; None for no change.

        Raises:
            ServeError: it cannot be served, or ``clients`` has no authority in PEM. Then nothing changes.
        """
        with self._lock:
            if self._closed:
                return
            try:
                self._handshakes.newest = a_context(pair, clients or self._clients)
            except (ssl.SSLError, OSError) as error:
                raise self._problem(error) from error
            self._clients = clients or self._clients
            if self._serving is None:
                protocol = _served_within(_Bounds(self._may, self._slowest_request))
                serving = _Serving(self._app, self._reserved, self._handshakes, protocol)
                if not serving.start(self._clock):
                    serving.end()
                    raise self._problem(serving.error)
                self._serving = serving

    def _may(self, transport: asyncio.Transport) -> bool:
        """Whether a client with a verified certificate has one of the allowed names; others are logged."""
        certificate = transport.get_extra_info("peercert") or {}
        if self._clients is None or self._clients.may(certificate):
            return True
        shown = ", ".join(sorted(set(names_in(certificate)))) or "nobody"
        why = f"Its certificate is for {shown}, who may not ask."
        self._handshakes.refusals.report(str((transport.get_extra_info("peername") or ("unknown",))[0]), why)
        return False

    def _problem(self, error: Exception | None) -> ServeError:
        return ServeError(f"Cannot serve HTTPS on {self._host} port {self.port}: {error or 'no answer'}.")

    def problem(self) -> str | None:
        """Why HTTPS is no longer served although it was, which only a restart solves; else None."""
        serving = self._serving
        gone = serving is not None and serving.has_ended and not self._closed
        return f"HTTPS is no longer served on port {self.port}." if gone else None

    def close(self) -> None:
        """Answer the requests in progress, then end every connection."""
        with self._lock:
            self._closed = True
            if self._serving:
                self._serving.end()
            self._reserved.close()


class _Serving:
    """The server and its thread."""

    def __init__(
        self,
        app: App,
        reserved: socket.socket,
        context: ssl.SSLContext,
        protocol: type[asyncio.Protocol],
    ) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=protocol,
            backlog=BACKLOG,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=ENDS_WITHIN,
        )
        config.load()
        config.ssl = context
        self._server = uvicorn.Server(config)
        self._reserved = reserved
        self._ended = threading.Event()
        self.error: Exception | None = None
        port = reserved.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name=f"https-{port}", daemon=True)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def start(self, clock: Clock) -> bool:
        """Start the thread; returns whether the server has started in time."""
        self._thread.start()
        deadline = clock.monotonic() + STARTS_WITHIN
        while not self._ended.is_set() and clock.monotonic() < deadline:
            if self._server.started:
                return True
            clock.wait(self._ended, 0.01)
        return False

    def end(self) -> None:
        """Stop the server in bounded time: a client that does not finish its request is cut off."""
        self._server.should_exit = True
        if not self._ended.wait(2 * ENDS_WITHIN):
            self._server.force_exit = True
            self._ended.wait(ENDS_WITHIN)
        self._thread.join(ENDS_WITHIN)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self.error = error
            log.exception("the HTTPS server failed")
        finally:
            self._ended.set()

    async def _serve(self) -> None:
        await self._server.serve(sockets=[self._reserved])
        # Only the loop knows clients in the middle of a handshake or of a TLS shutdown. Before Python 3.12,
        # which has Server.abort_clients, they are in a private table.
        for transport in list(getattr(asyncio.get_running_loop(), "_transports", {}).values()):
            transport.abort()
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Which clients are served, and for how long a request may take to arrive."""

    may: Callable[[asyncio.Transport], bool]
    """Whether a client is served, called after its TLS handshake."""
    patience: float
    """Seconds in which a request must be complete."""


class _Http(H11Protocol):
    """Ends the connections of clients that are not allowed, or do not finish a request in time."""

    bounds: _Bounds
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"HTTP needs a transport for both ways, not {transport!r}.")
        super().connection_made(transport)
        if self.bounds.may(transport):
            # Clients may also connect before they have a request.
            idle = self.loop.call_later(IDLE_SECONDS, self.timeout_keep_alive_handler)
            self.timeout_keep_alive_task = idle
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._check_progress()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._rest()

    def _check_progress(self) -> None:
        """Start or stop the timer of an incomplete request. An early answer does not complete a request."""
        is_begun = bool(self.conn.trailing_data[0]) or bool(self.cycle and self.cycle.more_body)
        if not is_begun or self.transport.is_closing():
            self._rest()
        elif self._late is None:
            self._late = self.loop.call_later(self.bounds.patience, self._cut_off)

    def _rest(self) -> None:
        if self._late:
            self._late.cancel()
        self._late = None

    def _cut_off(self) -> None:
        self._late = None
        if self.flow.read_paused:
            self._check_progress()  # we ourselves have paused reading
        else:
            log.info("an incomplete request was cut off", client=self.client)
            self.transport.abort()


def _served_within(bounds: _Bounds) -> type[_Http]:
    made = bounds

    class Http(_Http):
        bounds = made

    return Http


def reserved_socket(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet.

    It is created with the protocol TCP, because asyncio disables Nagle's algorithm only for such sockets.
    With that algorithm every answer would wait 40 ms for the acknowledgement of its head.

    Raises:
        ServeError: the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reserved = Listening(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, port))
    except OSError as error:
        reserved.close()
        raise ServeError(error.errno, f"Cannot listen on {host} port {port}: {error.strerror}") from error
    return reserved
