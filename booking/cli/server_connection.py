"""How a command reaches the booking server: which address, which token.

The address is the given one, or the one that the chart has written into the cluster. The token is the given
one, or the one by which the API server knows the kubeconfig's user; that one is stored while it is good
(``stored_login``).
"""

import os
import ssl
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from booking import wording
from booking.cli import output
from booking.cli.api import ROOT, Api
from booking.cli.connection_settings import (
    CA_FILE,
    HOW,
    TOKEN,
    TOKEN_FILE,
    URL,
    ConnectionOptions,
    whole_token,
)
from booking.cli.errors import CommandError
from booking.cli.progress import patiently
from booking.cli.stored_login import Login, StoredLogin
from cluster.process.clock import Clock

if TYPE_CHECKING:
    from booking.cli.cluster_access import ClusterAccess


class ServerConnection:
    """The booking server and the cluster, looked up when they are first needed."""

    def __init__(
        self,
        options: ConnectionOptions,
        environ: Mapping[str, str],
        clock: Clock,
        *,
        within: float | None = None,
    ) -> None:
        """Create it without any request.

        Args:
            options: of the command line.
            environ: of the process.
            clock: the time.
            within: seconds in which each answer must come; nothing is printed on the terminal then, and no
                user is asked to sign in. None: as long as the user waits for the command.
        """
        self._options = options
        self._environ = environ
        self.clock = clock
        self._within = within
        self._is_refused = False
        self._source: Literal["given", "stored", "new"] = "given"
        """Of the token."""

    @cached_property
    def api(self) -> Api:
        """The booking server.

        Raises:
            CommandError: its address or a token cannot be found, or cannot be used.
        """
        given = self._options.url or self._environ.get(URL)
        url = _address(given or (self._kept.url if self._kept else self.cluster.url()))
        ca_file = self._options.ca_file or self._environ.get(CA_FILE)
        token, where = self._token(url)
        return Api(
            url,
            token,
            ca_file=_authorities(ca_file) if ca_file else None,
            waiting=lambda: self._patiently(f"waiting for {url}"),
            localize=self._localized,
            within=self._within,
            about_token=f"It is the token {where}: show another with {TOKEN}, {TOKEN_FILE} or --token-file.",
            renew=lambda: self._renewed(url),
            doubt=self._stored.forget,
        )

    @cached_property
    def cluster(self) -> "ClusterAccess":
        """The cluster of the kubeconfig. Loading it takes longer than all else, so it is loaded if needed."""
        module = import_module("booking.cli.cluster_access")
        access: ClusterAccess = module.ClusterAccess(
            self._options, self._environ, self.clock, within=self._within
        )
        return access

    def localized(self, message: str) -> str:
        """A message of the server, with instants in the site's zone."""
        return output.localized(message, lambda: self.zone)

    def _localized(self, message: str) -> str:
        """A refusal's message with local times; unchanged if the request for the zone is refused too."""
        if self._is_refused:
            return message
        self._is_refused = True
        with suppress(CommandError):
            return self.localized(message)
        return message

    @cached_property
    def zone(self) -> ZoneInfo:
        """The site's time zone, in which days are counted."""
        key = str(self.api.get("/policy").get("zone") or "UTC")
        try:
            return ZoneInfo(key)
        except ZoneInfoNotFoundError:
            return ZoneInfo("UTC")

    @property
    def namespace(self) -> str:
        """The namespace from the command line, else the context's.

        Raises:
            CommandError: none was given, and no context is known.
        """
        if self._options.namespace:
            return self._options.namespace
        try:
            return self._kept.namespace if self._kept else self.cluster.namespace
        except CommandError as error:
            raise CommandError(f"{error} Or name the namespace with --namespace.") from error

    @property
    def named_namespace(self) -> str | None:
        """The namespace from the command line, if any."""
        return self._options.namespace

    def _patiently(self, what: str) -> AbstractContextManager[None]:
        return patiently(what) if self._within is None else nullcontext()

    @cached_property
    def _stored(self) -> StoredLogin:
        return StoredLogin(self._options, self._environ, self.clock, user=os.geteuid())

    @cached_property
    def _kept(self) -> Login | None:
        """The login of an earlier command."""
        return self._stored.read()

    def _token(self, url: str) -> tuple[str, str]:
        """The token for the server there, and where it is. One that is given is never stored."""
        file = self._options.token_file or self._environ.get(TOKEN_FILE)
        if file:
            return _token_of(Path(file)), f"in the file {file}"
        given = self._environ.get(TOKEN)
        if given:
            return whole_token(given, f"in {TOKEN}"), f"in {TOKEN}"
        self._source = "stored" if self._kept else "new"
        return self._kept.token if self._kept else self._new_token(url), "of the kubeconfig's user"

    def _new_token(self, url: str) -> str:
        made = self.cluster.token()
        if made.until is not None:
            login = Login(token=made.token, until=made.until, url=url, namespace=self.cluster.namespace)
            self._stored.write(login)
        return made.token

    def _renewed(self, url: str) -> str | None:
        """Another token after the server refused a stored one; None if it refused another."""
        before, self._source = self._source, "new"
        if before != "given":
            self._stored.forget()
        return self._new_token(url) if before == "stored" else None


def _address(url: str) -> str:
    """A usable server address, without the path of its API.

    Raises:
        CommandError: the text is not one.
    """
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or not url.isprintable() or " " in url:
        raise CommandError(
            f"{wording.quoted(url)} is not the address of a booking server: write it with --url or {URL}, for"
            " example https://gpu.example.org."
        )
    return url.rstrip("/").removesuffix(ROOT)


def _authorities(file: str | Path) -> str:
    """A file of usable certificates.

    Raises:
        CommandError: it cannot be used.
    """
    try:
        ssl.create_default_context(cafile=file)
    except ssl.SSLError as error:
        raise CommandError(
            f"The file {file} has no certificates of authorities (PEM): name another with --ca-file or"
            f" {CA_FILE}."
        ) from error
    except OSError as error:
        raise CommandError(
            f"The file {file} cannot be read: {error.strerror}. Name another with --ca-file or {CA_FILE}."
        ) from error
    return str(file)


def _token_of(file: Path) -> str:
    try:
        text = file.read_text(encoding="ascii")
    except OSError as error:
        raise CommandError(f"The token file {file} cannot be read: {error.strerror}. {HOW}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"What is in the file {file} is not a token. {HOW}") from error
    return whole_token(text, f"in the file {file}")
