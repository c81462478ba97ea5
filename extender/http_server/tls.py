"""Mode ``existing``: the verbs by mutual TLS. Imported only in that mode, as it doubles the import time."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2wsgi import WSGIMiddleware

from cluster import names
from cluster.process.certificates import AllowedClients, CertificateExpiry, KeyPair
from cluster.process.clock import Clock
from cluster.process.https import App, TlsServer
from cluster.process.lifecycle import Process
from cluster.process.probes import Check
from cluster.process.settings import SettingsError
from extender.existing import Presented, Served
from extender.settings import Settings

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication


class Whole:
    """Calls a WSGI application once a request is complete, so that no thread of it waits for a client.

    A thread that waits would block other requests, and the end of the process.
    """

    def __init__(self, app: "WSGIApplication", *, threads: int, limit: int) -> None:
        """Args: threads: number of simultaneous requests; limit: maximum bytes of a body to read."""
        # The published types of a2wsgi accept only their own kind of WSGI environment.
        adapted: Any = WSGIMiddleware
        self._app: App = adapted(app, workers=threads)
        self._limit = limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Read a request's whole body, then pass both to the application."""
        parts, length = [b""], 0
        more = int(dict(scope["headers"]).get(b"content-length", 0)) <= self._limit
        while more and length <= self._limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message["body"])
            length += len(message["body"])
            more = message["more_body"]
        whole = {"type": "http.request", "body": b"".join(parts), "more_body": False}

        async def given() -> dict[str, Any]:
            return whole

        await self._app(scope, given, send)


def serve_by_tls(app: "WSGIApplication", settings: Settings, process: Process, clock: Clock) -> Served:
    """Serve by mutual TLS, in mode ``existing``.

    Raises:
        SettingsError: a file is not named, or the clients' authority cannot be read.
        ServeError: the address is taken or not ours, or that file has no certificate.
    """
    certificate = _named(settings.tls_certificate_file, "tls_certificate_file")
    key = _named(settings.tls_key_file, "tls_key_file")
    authority = _named(settings.tls_client_ca_file, "tls_client_ca_file")

    def clients() -> AllowedClients:
        return AllowedClients(authorities=authority.read_text(), names=frozenset(settings.tls_client_names))

    try:
        first = clients()
    except (OSError, UnicodeDecodeError) as error:
        setting = names.setting("tls_client_ca_file")
        raise SettingsError(f"The file that {setting} names cannot be read: {error}.") from error
    server = TlsServer(
        Whole(app, threads=settings.threads, limit=settings.max_body_bytes),
        clock,
        host=settings.host,
        port=settings.port,
        clients=first,
    )
    process.closing("verbs", server.close)
    ends = CertificateExpiry()
    presented = Presented(
        lambda: (KeyPair(certificate.read_bytes(), key.read_bytes()), clients()),
        ends.recorded(server.present),
        clock,
    )
    presented.reconcile()
    return Served(_first(presented.problem, server.problem), ends.at, presented.run)


def _first(*checks: Check) -> Check:
    return lambda: next((problem for check in checks if (problem := check())), None)


def _named(file: Path | None, field: str) -> Path:
    if file is None:
        raise SettingsError(f"{names.setting(field)} must name a file: the mode `existing` needs it.")
    return file
