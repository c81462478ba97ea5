"""The certificate of an HTTPS server, and the client certificates that it accepts."""

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Concatenate, Final, ParamSpec

P = ParamSpec("P")

_TIMES: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""UTCTime and GeneralizedTime, as certificates write them (RFC 5280, 4.1.2.5)."""
_VERSION: Final = 0xA0
_LONG: Final = 0x80


class UnreadableCertificateError(ValueError):
    """A text without a certificate in PEM that can be read."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, in PEM; the key in PKCS#8."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AllowedClients:
    """Which client certificates mutual TLS accepts."""

    authorities: str
    """The authorities that sign their certificates, PEM."""
    names: frozenset[str]
    """Common names or DNS names; an empty set accepts every client with a certificate of the authorities."""

    def may(self, certificate: dict[str, Any]) -> bool:
        """Whether a client with this verified certificate (``ssl.SSLSocket.getpeercert``) is accepted."""
        return not self.names or not self.names.isdisjoint(names_in(certificate))


class CertificateExpiry:
    """When the certificate that is served expires, for a metric."""

    def __init__(self) -> None:
        self._at: float | None = None

    def at(self) -> float | None:
        """Unix time in seconds; None before the first certificate, or if it cannot be read."""
        return self._at

    def recorded(
        self, present: Callable[Concatenate[KeyPair, P], None]
    ) -> Callable[Concatenate[KeyPair, P], None]:
        """Wrap a function that serves a certificate, to record the expiry after each call."""

        def presented(pair: KeyPair, /, *more: P.args, **named: P.kwargs) -> None:
            present(pair, *more, **named)
            try:
                self._at = ends_at(pair.certificate).timestamp()
            except UnreadableCertificateError:
                self._at = None

        return presented


def ends_at(certificate: bytes) -> datetime:
    """When the first certificate of a text in PEM expires.

    Its DER is parsed here, since the library that reads certificates is not in the extender's image.

    Raises:
        UnreadableCertificateError: there is none that can be read.
    """
    try:
        begin = certificate.decode().index("-----BEGIN CERTIFICATE-----")
        end = "-----END CERTIFICATE-----"
        text = certificate.decode()[begin:]
        whole = ssl.PEM_cert_to_DER_cert(text[: text.index(end) + len(end)])
        ((_, certified),) = _parts(whole)
        (_, signed), *_ = _parts(certified)
        fields = [part for part in _parts(signed) if part[0] != _VERSION]
        # Serial number, algorithm, issuer, and then the validity: from when to when.
        _, (kind, text_of_end) = _parts(fields[3][1])
        return datetime.strptime(text_of_end.decode(), _TIMES[kind]).replace(tzinfo=UTC)
    except (ValueError, KeyError, IndexError) as error:
        raise UnreadableCertificateError(f"This is not a certificate in PEM: {error}.") from error


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each value in these bytes, one after the other."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length >= _LONG:
            digits = length - _LONG
            length, at = int.from_bytes(der[at : at + digits], "big"), at + digits
        yield tag, der[at : at + length]
        at += length


def names_in(certificate: dict[str, Any]) -> Iterator[str]:
    """The common names and DNS names of a verified certificate."""
    for part in certificate.get("subject", ()):
        yield from (value for key, value in part if key == "commonName")
    yield from (value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS")
