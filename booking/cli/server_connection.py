"""How a command reaches the booking server: which kubeconfig, which address, which token.

The address is the given one, or the one that the chart has written into the cluster. The token is the given
one, or the one by which the API server knows the kubeconfig's user.
"""

import re
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from booking import wording
from booking.cli import output
from booking.cli.api import Api
from booking.cli.errors import CommandError, UnreachableError
from booking.cli.progress import patiently
from cluster import names
from cluster.kube import kubeconfig
from cluster.kube.client import READ_ATTEMPTS, KubeClient
from cluster.kube.connection import BadConnectionError, Connection
from cluster.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from cluster.kube.in_cluster import SERVICE_ACCOUNT
from cluster.kube.interface import Selection
from cluster.kube.resources import CONFIG_MAPS, Resource, T
from cluster.kube.token_request import account_of, token_for
from cluster.kube.transport import Timeouts
from cluster.process.clock import Clock

URL: Final = names.setting("url")
TOKEN: Final = names.setting("token")
TOKEN_FILE: Final = names.setting("token_file")
CA_FILE: Final = names.setting("ca_file")

_HOW: Final = (
    f"Get one: kubectl create token NAME -n NAMESPACE --audience {names.AUDIENCE} > FILE; and name it with"
    f" --token-file FILE or {TOKEN_FILE}."
)

_API_SERVER: Final = re.compile(r"^ApiServer\([^)]*\): ")
"""The library's name for the connection in its messages."""
_PAGE: Final = 500
"""Objects per page of a list from the API server."""


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """The options of the command line that choose the server and the user."""

    url: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    installed: str = names.NAMESPACE
    mounted: Path = SERVICE_ACCOUNT
    """Where a pod finds its ServiceAccount."""


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

    @cached_property
    def api(self) -> Api:
        """The booking server.

        Raises:
            CommandError: its address or a token cannot be found, or cannot be used.
        """
        url = _address(self._options.url or self._environ.get(URL) or self._url_in_cluster())
        ca_file = self._options.ca_file or self._environ.get(CA_FILE)
        return Api(
            url,
            self._token(),
            ca_file=_authorities(ca_file) if ca_file else None,
            waiting=lambda: self._patiently(f"waiting for {url}"),
            localize=self._localized,
            within=self._within,
        )

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
            return self._chosen.namespace
        except CommandError as error:
            raise CommandError(f"{error} Or name the namespace with --namespace.") from error

    @property
    def named_namespace(self) -> str | None:
        """The namespace from the command line, if any."""
        return self._options.namespace

    def objects(self, resource: Resource[T], *, namespace: str | None = None) -> Iterator[T]:
        """Objects of the API server, of one namespace or of all; each page is requested when it is needed.

        Raises:
            CommandError: its address or the user's credentials are unknown.
            ApiError: it does not answer, or refuses.
        """
        with self._client() as kube:
            page = kube.list(resource, Selection(namespace=namespace), limit=_PAGE)
            yield from page.items
            while page.continue_:
                selection = Selection(namespace=namespace)
                page = kube.list(resource, selection, limit=_PAGE, continue_=page.continue_)
                yield from page.items

    @cached_property
    def _chosen(self) -> kubeconfig.Chosen:
        try:
            files = kubeconfig.paths(self._environ, self._options.kubeconfig)
            is_named = self._options.kubeconfig or self._options.context
            inside = (
                None
                if is_named
                else kubeconfig.of_pod(files, self.clock, self._environ, self._options.mounted)
            )
            return inside or kubeconfig.choose(files, context=self._options.context)
        except BadConnectionError as error:
            raise CommandError(str(error)) from error

    @cached_property
    def _credential(self) -> kubeconfig.ExecCredentialStatus:
        interactive = self._within is None and sys.stdin.isatty()
        try:
            with self._making_credentials(interactive=interactive):
                return kubeconfig.credential_of(
                    self._chosen.user, self._environ, interactive=interactive, within=self._within
                )
        except BadConnectionError as error:
            raise CommandError(str(error)) from error

    def _making_credentials(self, *, interactive: bool) -> AbstractContextManager[None]:
        """Show progress while a program makes credentials; it may ask the user to sign in."""
        program = self._chosen.user.exec
        if program is None:
            return nullcontext()
        may_ask = interactive and program.interactive_mode != "Never"
        what = f"waiting for {program.command}, which makes the credentials of the kubeconfig"
        return self._patiently(what, is_shared=may_ask)

    def _patiently(self, what: str, *, is_shared: bool = False) -> AbstractContextManager[None]:
        return patiently(what, is_shared=is_shared) if self._within is None else nullcontext()

    def _token(self) -> str:
        file = self._options.token_file or self._environ.get(TOKEN_FILE)
        if file:
            return _token_of(Path(file))
        given = self._environ.get(TOKEN)
        if given:
            return _whole_token(given, f"in {TOKEN}")
        try:
            user = self._chosen.user
            token = None if user.impersonated else self._credential.token
        except CommandError as error:
            raise CommandError(f"{error} Or show a token with --token-file or {TOKEN}.") from error
        if user.impersonated:
            raise CommandError(
                f"The context {self._chosen.context} acts as {wording.quoted(user.impersonated)}"
                " (as), and the booking server knows people by their own tokens: choose another context, or"
                f" show that user's token with --token-file or {TOKEN}."
            )
        if not token:
            raise CommandError(
                f"The user of context {self._chosen.context} has no token, perhaps a certificate, and the"
                f" booking server knows people by tokens. {_HOW}"
            )
        token = _whole_token(token, f"of context {self._chosen.context}")
        account = account_of(token, names.AUDIENCE)
        return token if account is None else self._exchanged(account)

    def _exchanged(self, account: tuple[str, str]) -> str:
        """A token for the booking server, requested with a ServiceAccount's token for the API server."""
        try:
            with self._connection() as connection, self._patiently(f"waiting for {connection.server}"):
                return token_for(connection, self.clock, account, names.AUDIENCE)
        except Forbidden as error:
            raise CommandError(
                f"The ServiceAccount {'/'.join(account)} may not make itself a token for the booking server."
                f" {_HOW}"
            ) from error
        except ApiError as error:
            raise UnreachableError(
                f"No token for the booking server could be made: {self._trouble(error)}"
            ) from error

    def _url_in_cluster(self) -> str:
        """The booking server's URL from the ConfigMap that the chart has written."""
        where = f"{self._options.installed}/{names.CLIENT_CONFIG}"
        hint = f"Say where the booking server is with --url or {URL}."
        try:
            with self._client() as kube:
                found = kube.get(CONFIG_MAPS, names.CLIENT_CONFIG, namespace=self._options.installed)
        except NotFound as error:
            raise CommandError(
                f"The cluster does not say where its booking server is ({where}). {hint}"
            ) from error
        except BadConnectionError as error:
            raise CommandError(f"{error} {hint}") from error
        except ApiError as error:
            raise UnreachableError(
                f"The cluster could not be asked where its booking server is: {self._trouble(error)} {hint}"
            ) from error
        url = (found.data or {}).get("server")
        if not url:
            raise CommandError(f"The ConfigMap {where} has no key server. {hint}")
        return str(url)

    def _trouble(self, error: ApiError) -> str:
        """What went wrong between the client and the API server: a sentence or two."""
        if not isinstance(error, Unreachable):
            return f"{str(error).rstrip('.')}."
        reason = _API_SERVER.sub("", error.message).rstrip(".")
        return (
            f"the API server at {self._chosen.cluster.server} does not answer: {reason}. Is context"
            f" {self._chosen.context} the right one, and is its cluster running?"
        )

    @contextmanager
    def _client(self) -> Iterator[KubeClient]:
        """The API server, as the kubeconfig's user."""
        with self._connection() as connection, self._patiently(f"waiting for {connection.server}"):
            kube = KubeClient(
                connection,
                self.clock,
                user_agent=names.CLI,
                timeouts=Timeouts(connect=self._within, read=self._within) if self._within else None,
                read_attempts=1 if self._within else READ_ATTEMPTS,
            )
            try:
                yield kube
            finally:
                kube.close()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A connection to the API server; the files that the TLS library needs are removed afterwards."""
        with tempfile.TemporaryDirectory(prefix=names.FOLDER_PREFIX) as folder:
            yield kubeconfig.connection(self._chosen, self._credential, Path(folder))


def _address(url: str) -> str:
    """A usable server address.

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
    return url


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
        raise CommandError(f"The token file {file} cannot be read: {error.strerror}. {_HOW}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"What is in the file {file} is not a token. {_HOW}") from error
    return _whole_token(text, f"in the file {file}")


def _whole_token(text: str, where: str) -> str:
    """A token as it is sent.

    Raises:
        CommandError: it is not a token. It is not shown, because it may be a part of one.
    """
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError(f"What is {where} is not a token. {_HOW}")
    return token
