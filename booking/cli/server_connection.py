"""How a command reaches the booking server: whose kubeconfig, which address, which token.

The address is the one that is given, or the one that the chart has written into the cluster. The token is the
one that is given, or the one by which the kubeconfig's user is known to the API server.
"""

import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from booking import wording
from booking.cli import output
from booking.cli.api import Api
from booking.cli.errors import CommandError, UnreachableError
from booking.cli.progress import patiently
from cluster import names
from cluster.kube import kubeconfig
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError, Connection
from cluster.kube.errors import ApiError, Forbidden, NotFound
from cluster.kube.in_cluster import SERVICE_ACCOUNT
from cluster.kube.resources import CONFIG_MAPS
from cluster.kube.token_request import account_of, token_for
from cluster.process.clock import Clock

URL: Final = names.setting("url")
TOKEN: Final = names.setting("token")
TOKEN_FILE: Final = names.setting("token_file")
CA_FILE: Final = names.setting("ca_file")

_HOW: Final = (
    f"Get one: kubectl create token NAME -n NAMESPACE --audience {names.AUDIENCE} > FILE; and name it with"
    f" --token-file FILE or {TOKEN_FILE}."
)

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """What was said on the command line about whom to ask."""

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
    """The booking server and the cluster, found when somebody needs them."""

    def __init__(self, options: ConnectionOptions, environ: Mapping[str, str], clock: Clock) -> None:
        self._options = options
        self._environ = environ
        self.clock = clock
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
            waiting=lambda: patiently(f"waiting for {url}"),
            told=self._told,
        )

    def told(self, message: str) -> str:
        """What the server says, with instants by the site's clocks."""
        return output.told(message, lambda: self.zone)

    def _told(self, message: str) -> str:
        """The same of a refusal: where the zone is refused as well, as it is."""
        if self._is_refused:
            return message
        self._is_refused = True
        with suppress(CommandError):
            return self.told(message)
        return message

    @cached_property
    def zone(self) -> ZoneInfo:
        """The site's: days are days in it."""
        key = str(self.api.get("/policy").get("zone") or "UTC")
        try:
            return ZoneInfo(key)
        except ZoneInfoNotFoundError:
            return ZoneInfo("UTC")

    @property
    def namespace(self) -> str:
        """The one that was named, else the context's."""
        return self._options.namespace or self._chosen.namespace

    @property
    def named_namespace(self) -> str | None:
        """The one that was named, if any."""
        return self._options.namespace

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
        interactive = sys.stdin.isatty()
        try:
            with self._making_credentials(interactive=interactive):
                return kubeconfig.credential_of(self._chosen.user, self._environ, interactive=interactive)
        except BadConnectionError as error:
            raise CommandError(str(error)) from error

    def _making_credentials(self, *, interactive: bool) -> AbstractContextManager[None]:
        """A sign of life while a program makes credentials; it may ask somebody to sign in."""
        program = self._chosen.user.exec
        if program is None:
            return nullcontext()
        may_ask = interactive and program.interactive_mode != "Never"
        what = f"waiting for {program.command}, which makes the credentials of the kubeconfig"
        return patiently(what, is_shared=may_ask)

    def _token(self) -> str:
        file = self._options.token_file or self._environ.get(TOKEN_FILE)
        if file:
            return _token_of(Path(file))
        given = self._environ.get(TOKEN)
        if given:
            return _whole_token(given, f"in {TOKEN}")
        try:
            token = self._credential.token
        except CommandError as error:
            raise CommandError(f"{error} Or show a token with --token-file or {TOKEN}.") from error
        if not token:
            raise CommandError(
                f"The user of context {self._chosen.context} has no token, perhaps a certificate, and the"
                f" booking server knows people by tokens. {_HOW}"
            )
        token = _whole_token(token, f"of context {self._chosen.context}")
        account = account_of(token, names.AUDIENCE)
        return token if account is None else self._exchanged(account)

    def _exchanged(self, account: tuple[str, str]) -> str:
        """A ServiceAccount's token is for the API server alone: it is asked for one that is for us."""
        try:
            with self._connection() as connection, patiently(f"waiting for {connection.server}"):
                return token_for(connection, self.clock, account, names.AUDIENCE)
        except Forbidden as error:
            raise CommandError(
                f"The ServiceAccount {'/'.join(account)} may not make itself a token for the booking server."
                f" {_HOW}"
            ) from error
        except ApiError as error:
            raise UnreachableError(f"No token for the booking server could be made: {error}") from error

    def _url_in_cluster(self) -> str:
        """As the chart has written it."""
        where = f"{self._options.installed}/{names.CLIENT_CONFIG}"
        hint = f"Say where the booking server is with --url or {URL}."
        try:
            with self._connection() as connection, patiently(f"waiting for {connection.server}"):
                kube = KubeClient(connection, self.clock, user_agent=names.CLI)
                found = kube.get(CONFIG_MAPS, names.CLIENT_CONFIG, namespace=self._options.installed)
                kube.close()
        except NotFound as error:
            raise CommandError(
                f"The cluster does not say where its booking server is ({where}). {hint}"
            ) from error
        except BadConnectionError as error:
            raise CommandError(f"{error} {hint}") from error
        except ApiError as error:
            raise UnreachableError(
                f"Where the booking server is could not be read: {error} {hint}"
            ) from error
        url = (found.data or {}).get("server")
        if not url:
            raise CommandError(f"The ConfigMap {where} has no key server. {hint}")
        return str(url)

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """To the API server; what a TLS library must read from files is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix=names.FOLDER_PREFIX) as folder:
            yield kubeconfig.connection(self._chosen, self._credential, Path(folder))


def _address(url: str) -> str:
    """An address that can be asked.

    Raises:
        CommandError: it is none.
    """
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or not url.isprintable() or " " in url:
        raise CommandError(
            f"{wording.quoted(url)} is no address of a booking server: write it with --url or {URL}, for"
            " example https://gpu.example.org."
        )
    return url


def _authorities(file: str | Path) -> str:
    """A file of certificates that can be used.

    Raises:
        CommandError: it cannot.
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
        raise CommandError(f"What is in the file {file} is no token. {_HOW}") from error
    return _whole_token(text, f"in the file {file}")


def _whole_token(text: str, where: str) -> str:
    """A token as it is sent.

    Raises:
        CommandError: nobody can have made such a one; it is not shown, for it may be part of one.
    """
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError(f"What is {where} is no token. {_HOW}")
    return token


def reaching(command: Decorated) -> Decorated:
    """Give a command the options about whom to ask; it gets a ``Reach`` as ``reach``."""
    options = (
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The kubeconfig; by default the files in KUBECONFIG, else ~/.kube/config.",
        ),
        click.option(
            "--context",
            help="A context of the kubeconfig; by default the current one.",
            shell_complete=_contexts,
        ),
        click.option(
            "--namespace",
            "-n",
            help="Namespace of a POD, by default the context's; or the only one that a new booking covers.",
        ),
        click.option(
            "--url",
            envvar=URL,
            show_envvar=True,
            help="Address of the booking server; by default the one that the cluster tells.",
        ),
        click.option(
            "--token-file",
            envvar=TOKEN_FILE,
            show_envvar=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="File with a token for the booking server; by default the token of the kubeconfig's user.",
        ),
        click.option(
            "--ca-file",
            envvar=CA_FILE,
            show_envvar=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="Authorities (PEM) that vouch for the booking server; by default the system's.",
        ),
        click.option(
            "--installed-in",
            default=names.NAMESPACE,
            show_default=True,
            help="Namespace in which GPU Booking is installed.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def reach_of(options: dict[str, Any]) -> ServerConnection:
    """Take the options of ``reaching`` out of a command's."""
    wishes = ConnectionOptions(
        installed=options.pop("installed_in"),
        **{
            name: options.pop(name)
            for name in ("url", "token_file", "ca_file", "kubeconfig", "context", "namespace")
        },
    )
    return ServerConnection(wishes, os.environ, the_clock(click.get_current_context()))


def the_clock(context: click.Context) -> Clock:
    """The one that the composition root has given."""
    clock: Clock = context.find_root().obj
    return clock


def _contexts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    known = kubeconfig.contexts(kubeconfig.paths(os.environ, context.params.get("kubeconfig")))
    return [each for each in known if each.startswith(incomplete)]
