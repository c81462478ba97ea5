"""TLS handshakes of a server: each uses the newest certificate and authorities, and each refusal is logged.

Python's event loop silently drops a client whose handshake fails: it logs nothing and sends no alert to the
client, whose own log then says "EOF". Here the alert is sent, and the log names the client and the reason.
"""

import os
import socket
import ssl
from contextvars import ContextVar
from typing import Any, Final

import structlog

from cluster import names
from cluster.process.certificates import AllowedClients, KeyPair
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

AGAIN: Final = 60.0
"""Seconds in which a refusal of the same client for the same reason is not logged again."""
MOST: Final = 100
"""Maximum number of lines about refusals in that time, so that no client can fill the log."""

_CAUSES: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "It shows no certificate.",
    "HTTP_REQUEST": "It speaks HTTP without TLS.",
    "TLSV1_ALERT_UNKNOWN_CA": "It does not know the authority of the certificate that it is shown.",
    "SSLV3_ALERT_BAD_CERTIFICATE": "It does not accept the certificate that it is shown.",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "It finds the certificate that it is shown expired.",
}
"""OpenSSL's reason -> its meaning."""

_client: ContextVar[str] = ContextVar("client", default="unknown")
"""The address of the client accepted last: asyncio begins each handshake in a copy of that context."""


class Refusals:
    """Logs which clients are refused, and why. Only the thread that does handshakes uses it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reported: dict[tuple[str, str], float] = {}

    def report(self, client: str, why: str) -> None:
        """Log one line, unless it would repeat the last one or there are too many."""
        now = self._clock.monotonic()
        self._reported = {line: at for line, at in self._reported.items() if now - at < AGAIN}
        if (client, why) not in self._reported and len(self._reported) < MOST:
            self._reported[client, why] = now
            log.warning("a client is refused", client=client, reason=why)


class Handshake(ssl.SSLObject):
    """One client's handshake. asyncio sends OpenSSL's output only as long as the handshake continues."""

    client = "unknown"
    refusals: Refusals | None = None
    _refused: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        """Continue the handshake; a client that is refused is sent an alert before the connection ends.

        Raises:
            SSLError: the client is refused, or there is more to read or to write first.
        """
        if self._refused:
            raise self._refused
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self._refused = error
            if self.refusals:
                self.refusals.report(self.client, _why(error))
            raise ssl.SSLWantReadError("The alert is sent first.") from error


class Handshakes(ssl.SSLContext):
    """A TLS context for an event loop that begins every handshake with the newest real context."""

    newest: ssl.SSLContext
    refusals: Refusals

    def wrap_bio(self, *given: Any, **named: Any) -> ssl.SSLObject:
        """Begin a handshake with the newest context; the arguments are those of ``ssl.SSLContext``."""
        made = self.newest.wrap_bio(*given, **named)
        if isinstance(made, Handshake):
            made.client, made.refusals = _client.get(), self.refusals
        return made


class Listening(socket.socket):
    """A socket that passes the accepted client's address on to the handshakes."""

    def accept(self) -> tuple[socket.socket, Any]:
        """The next client and its address."""
        accepted, address = super().accept()
        _client.set(str(address[0]))
        return accepted, address


def handshakes(clock: Clock) -> Handshakes:
    """The handshakes of one server; set ``newest`` before the first one."""
    made = Handshakes(ssl.PROTOCOL_TLS_SERVER)
    made.refusals = Refusals(clock)
    return made


def a_context(pair: KeyPair | None, clients: AllowedClients | None) -> ssl.SSLContext:
    """A TLS context of a server.

    Args:
        pair: its certificate and key; None to check only whether ``clients`` can be used.
        clients: the allowed clients; None for every client, without a certificate.

    Raises:
        ssl.SSLError: the certificate or the authorities of the clients cannot be used.
        OSError: likewise.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = Handshake
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=clients.authorities)
    if pair:
        _load(context, pair)
    return context


def _load(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a pair into a context. OpenSSL reads only files; this one is in memory, so it leaves no trace."""
    file = os.memfd_create(names.PRODUCT)
    try:
        with os.fdopen(os.dup(file), "wb") as both:
            both.write(pair.certificate + pair.key)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


def _why(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"Its certificate is not accepted: {error.verify_message}."
    return _CAUSES.get(error.reason, f"Hands cannot be shaken: {error.reason or error}.")
