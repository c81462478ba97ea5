"""The webhook's keys as stored in their Secret, and when each of them is renewed. Pure.

The Secret is of type ``kubernetes.io/tls``: ``tls.crt``, ``tls.key``, and our authority in ``ca.crt``,
``ca.key``. ``ca.crt`` begins with the authority that signs. One authority replaces another without a moment
in which a certificate is not trusted::

    ca.crt          A ──A is due──> A, B ──B is known everywhere──> B, A
    next.key                        of B
    tls.crt of      A               A                               B
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from booking.controller.admission.certificate_authority import (
    has_ended,
    is_whole,
    made_at,
    needs_renewal,
    new_authority,
    new_certificate,
    vouches,
)
from cluster.process.certificates import KeyPair

KNOWN_AFTER: Final = timedelta(minutes=10)
"""By then every API server trusts a new authority, and every replica has read it."""
OF_TYPE: Final = "kubernetes.io/tls"
"""``type`` of the Secret that holds the keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Everything that the webhook needs to serve and to be trusted."""

    authorities: bytes
    """PEM: the authorities that the API server trusts; the first one signs."""
    authority_key: bytes = field(repr=False)
    server: KeyPair
    next_key: bytes = field(default=b"", repr=False)
    """Key of the authority that is trusted already and will sign next: the last of ``authorities``."""

    @property
    def successor(self) -> KeyPair | None:
        """The authority that will sign next; None where there is none yet."""
        pair = KeyPair(_all(self.authorities)[-1], self.next_key)
        return pair if self.next_key and is_whole(pair) else None

    @property
    def authority(self) -> KeyPair:
        """The authority that signs the server's certificate now."""
        return KeyPair(self.authorities, self.authority_key)


def keys_in(data: Mapping[str, str]) -> Keys:
    """The contents of a Secret; a value that is missing or not base64 becomes empty, and is made later."""
    return Keys(
        authorities=_plain(data.get("ca.crt")),
        authority_key=_plain(data.get("ca.key")),
        server=KeyPair(_plain(data.get("tls.crt")), _plain(data.get("tls.key"))),
        next_key=_plain(data.get("next.key")),
    )


def data_of(keys: Keys) -> dict[str, str]:
    """The keys as ``data`` of the Secret."""
    parts = {
        "ca.crt": keys.authorities,
        "ca.key": keys.authority_key,
        "tls.crt": keys.server.certificate,
        "tls.key": keys.server.key,
        "next.key": keys.next_key,
    }
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


def renewed(keys: Keys | None, hosts: Sequence[str], now: datetime) -> Keys:
    """The keys to use from now on: the same ones while nothing is due.

    Args:
        keys: the present ones, None where there are none.
        hosts: names and addresses of the server.
        now: the instant.
    """
    if keys is None or not is_whole(keys.authority) or has_ended(keys.authorities, now):
        authority = new_authority(now)
        return _signed(authority.certificate, authority, hosts, now)
    if needs_renewal(keys.authorities, now):
        successor = keys.successor
        if successor is None:
            keys = _announced(keys, now)
        elif now - made_at(successor.certificate) >= KNOWN_AFTER:
            return _signed(successor.certificate + _all(keys.authorities)[0], successor, hosts, now)
    if _serves(keys, hosts, now):
        return keys
    return replace(keys, server=new_certificate(keys.authority, hosts, now))


def _announced(keys: Keys, now: datetime) -> Keys:
    """The keys with a new authority that is trusted already, and will sign later."""
    successor = new_authority(now)
    bundle = _all(keys.authorities)[0] + successor.certificate
    return replace(keys, authorities=bundle, next_key=successor.key)


def _serves(keys: Keys, hosts: Sequence[str], now: datetime) -> bool:
    """Whether the certificate is valid and stays so for some time."""
    certificate = keys.server.certificate
    whole = is_whole(keys.server) and vouches(keys.authorities, certificate, hosts)
    return whole and not needs_renewal(certificate, now)


def _signed(authorities: bytes, authority: KeyPair, hosts: Sequence[str], now: datetime) -> Keys:
    server = new_certificate(authority, hosts, now)
    return Keys(authorities=authorities, authority_key=authority.key, server=server)


def _all(pem: bytes) -> list[bytes]:
    """The certificates of a PEM text; at least one, which may be empty."""
    end = b"-----END CERTIFICATE-----"
    found = [part.lstrip() + end + b"\n" for part in pem.split(end)[:-1]]
    return found or [b""]


def _plain(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""
