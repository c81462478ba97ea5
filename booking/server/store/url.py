"""The booking database's address, from one setting."""

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from booking.server.errors import StoreError
from cluster import names

_FILE: Final = "sqlite:///"
_SERVER: Final = "postgresql"
_IN_A_FILE: Final = "password_file"
_ANSWERS: Final = "answer_timeout"
_PATIENCE: Final = 35.0
"""Seconds: the server itself ends a statement after 30."""
_LONGEST_PATIENCE: Final = 3600.0
_PORT: Final = 5432


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A database on a PostgreSQL server."""

    host: str
    """Name, address, or the folder of its socket; empty: libpq's default."""
    port: int
    user: str
    password: str | None
    """Never shown. None: from the file, else from libpq (``PGPASSWORD``, ``PGPASSFILE``)."""
    password_file: Path | None
    """Read for every new connection: a new password needs no restart."""
    database: str
    answer_timeout: float = _PATIENCE
    """Seconds without an answer after which a server is considered to hang."""
    options: dict[str, str]
    """Other options of libpq: ``sslmode``, ``sslrootcert``, ``connect_timeout``."""

    @property
    def shown(self) -> str:
        """Database, host and port, for messages: never the password."""
        return f"{self.database} on {self.host or 'localhost'}:{self.port}"


def address_of(url: str) -> Path | Server:
    """The file or the server's database that a URL names.

    Args:
        url: ``sqlite:///relative/path``, ``sqlite:////absolute/path``, or
            ``postgresql://user:password@host:port/database?password_file=...&answer_timeout=...&sslmode=...``.

    Raises:
        StoreError: a URL of another kind, or one without file or database. It never shows a password.
    """
    return _server(url) if url.startswith(f"{_SERVER}:") else path_of(url)


def path_of(url: str) -> Path:
    """The file that a URL names.

    Args:
        url: ``sqlite:///relative/path`` or ``sqlite:////absolute/path``.

    Raises:
        StoreError: a URL of another kind, or one without a file.
    """
    path = url.removeprefix(_FILE)
    if not url.startswith(_FILE) or not path.strip("/") or path == ":memory:" or "\0" in path:
        raise StoreError(
            f"The database {_without_password(url)!r} cannot be used: write {_FILE} and the path of a file, "
            f"for example {_FILE}{names.DATABASE_FILE}, or "
            f"{_SERVER}://user@host:{_PORT}/database."
        )
    return Path(path)


def _server(url: str) -> Server:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
        query = [pair.partition("=") for pair in parts.query.split("&") if pair]
    except ValueError:
        raise _no_server() from None
    options = {key: unquote(value) for key, _, value in query}
    file = options.pop(_IN_A_FILE, None)
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database or "\0" in unquote(url) or not parts.username or parts.fragment:
        raise _no_server()
    return Server(
        host=options.pop("host", "") or unquote(parts.hostname or ""),
        port=port,
        user=unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        password_file=None if file is None else Path(file),
        database=database,
        answer_timeout=_patience(options.pop(_ANSWERS, None)),
        options=options,
    )


def _patience(text: str | None) -> float:
    try:
        seconds = _PATIENCE if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_PATIENCE:
        raise StoreError(
            f"The PostgreSQL database cannot be used: {_ANSWERS}={text} is not a number of seconds"
            f" between 0 and {_LONGEST_PATIENCE:.0f}."
        )
    return seconds


def _no_server() -> StoreError:
    return StoreError(
        f"The PostgreSQL database cannot be used: write {_SERVER}://user@host:{_PORT}/database; letters of a "
        f"password that mean something in a URL as %40 and so on, or its file as ?{_IN_A_FILE}=PATH."
    )


def _without_password(url: str) -> str:
    """The part of any kind of URL that may be shown."""
    before, at, after = url.rpartition("@")
    return f"{before.partition('://')[0] if '://' in before else ''}…{at}{after}" if at else url
