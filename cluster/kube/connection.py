"""The API server's address and our credentials: the input of a client.

``cluster.kube.in_cluster`` makes the connection of a small process in a pod, ``cluster.kube.official_client``
that of the others.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import structlog
import urllib3

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

TOKEN_READ_EVERY: Final = 60.0
"""Seconds. The kubelet renews a projected token after four fifths of its lifetime."""


class BadConnectionError(ValueError):
    """The settings for reaching the API server are missing or wrong."""


SocketOptions = Sequence[tuple[int, int, int]]
"""(level, option, value), as ``socket.setsockopt`` takes them."""


class Credentials(Protocol):
    """The source of the tokens that requests carry."""

    def token(self) -> str | None:
        """The present bearer token; None to send none."""
        ...

    def invalidate(self) -> None:
        """The server answered 401: do not use a cached token again."""
        ...


class NoToken:
    """No bearer token: a client certificate identifies us, or nothing does."""

    def token(self) -> str | None:
        """Always None: no Authorization header is sent."""
        return None

    def invalidate(self) -> None:
        """Does nothing: there is no token."""


class TokenFile:
    """A token in a file that is rotated."""

    def __init__(self, path: Path, clock: Clock, *, every: float = TOKEN_READ_EVERY) -> None:
        """Read the file at once.

        Raises:
            BadConnectionError: it cannot be read, or is empty.
        """
        self._path = path
        self._clock = clock
        self._every = every
        self._lock = threading.Lock()
        self._token = _read_token(path)
        self._read_at: float | None = clock.monotonic()

    def token(self) -> str | None:
        """The token, read again if it is too old; the old one if that fails."""
        with self._lock:
            if self._read_at is None or self._clock.monotonic() - self._read_at >= self._every:
                self._read_at = self._clock.monotonic()
                try:
                    self._token = _read_token(self._path)
                except BadConnectionError as error:
                    log.warning("the token cannot be read again: the previous one is used", error=str(error))
            return self._token

    def invalidate(self) -> None:
        """Read the file again before the next request."""
        with self._lock:
            self._read_at = None


def _read_token(path: Path) -> str:
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConnectionError(
            f"The token file {path} cannot be read ({error}): is the pod's ServiceAccount token mounted?"
        ) from error
    if not token:
        raise BadConnectionError(f"The token file {path} is empty.")
    return token


class ApiServerAccess(Protocol):
    """How the API server is reached: by ``Connection``, or by the official client's configuration."""

    @property
    def server(self) -> str:
        """URL, e.g. ``https://10.96.0.1:443``."""
        ...

    @property
    def credentials(self) -> Credentials:
        """The source of the tokens that requests carry."""
        ...

    def pools(self, connections: int, options: SocketOptions) -> urllib3.PoolManager:
        """Pools of connections with our certificates, through the proxy if there is one.

        Args:
            connections: number of connections to keep.
            options: of every socket.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Everything a client needs to reach the API server."""

    server: str
    """URL, e.g. ``https://10.96.0.1:443``."""
    ca_file: Path | None = None
    """Authorities that sign the server's certificate, PEM; None for the system's."""
    credentials: Credentials = field(default_factory=NoToken)
    client_certificate: Path | None = None
    client_key: Path | None = None

    def __post_init__(self) -> None:
        """Check the address and the files.

        Raises:
            BadConnectionError: the address is not http or https, or a file is missing.
        """
        if not self.server.startswith(("https://", "http://")):
            raise BadConnectionError(f"The API server's address {self.server!r} must begin with https://.")
        for what, path in (
            ("authority", self.ca_file),
            ("client certificate", self.client_certificate),
            ("client key", self.client_key),
        ):
            if path is not None and not path.is_file():
                raise BadConnectionError(f"The {what} file {path} for the API server does not exist.")

    def pools(self, connections: int, options: SocketOptions) -> urllib3.PoolManager:
        """See ``ApiServerAccess``."""
        return urllib3.PoolManager(
            num_pools=1,
            maxsize=connections,
            socket_options=options,
            cert_reqs="CERT_REQUIRED",
            ca_certs=str(self.ca_file) if self.ca_file else None,
            cert_file=str(self.client_certificate) if self.client_certificate else None,
            key_file=str(self.client_key) if self.client_key else None,
        )
