"""How a command reaches the booking server: whose kubeconfig, which address, which token.

The address is the one that is given, or the one that the chart has written into the cluster. The token is the
one that is given, or the one by which the kubeconfig's user is known to the API server.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from booking.cli import output
from booking.cli.api import Api
from booking.cli.failure import CommandError, UnreachableError
from booking.cli.progress import patiently
from cluster import names
from cluster.kube import kubeconfig
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError, Connection
from cluster.kube.errors import ApiError, Forbidden, NotFound
from cluster.kube.exchange import account_of, token_for
from cluster.kube.incluster import SERVICE_ACCOUNT
from cluster.kube.resources import CONFIG_MAPS
from cluster.runtime.clock import Clock

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
class Wishes:
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


class Reach:
    """The booking server and the cluster, found when somebody needs them."""

    def __init__(self, wishes: Wishes, environ: Mapping[str, str], clock: Clock) -> None:
        self._wishes = wishes
        self._environ = environ
        self.clock = clock
        self._is_refused = False

    @cached_property
    def api(self) -> Api:
        """The booking server.

        Raises:
            CommandError: its address or a token cannot be found.
        """
        url = self._wishes.url or self._environ.get(URL) or self._url_in_cluster()
        ca_file = self._wishes.ca_file or self._environ.get(CA_FILE)
        return Api(
            url,
            self._token(),
            ca_file=str(ca_file) if ca_file else None,
            waiting=lambda: patiently(f"waiting for {url}"),
            told=self._told,
        )

    def told(self, sentence: str) -> str:
        """What the server says, with instants by the site's clocks."""
        return output.told(sentence, lambda: self.zone)

    def _told(self, sentence: str) -> str:
        """The same of a refusal: where the zone is refused as well, as it is."""
        if self._is_refused:
            return sentence
        self._is_refused = True
        with suppress(CommandError):
            return self.told(sentence)
        return sentence

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
        return self._wishes.namespace or self._chosen.namespace

    @property
    def named_namespace(self) -> str | None:
        """The one that was named, if any."""
        return self._wishes.namespace

    @cached_property
    def _chosen(self) -> kubeconfig.Chosen:
        try:
            files = kubeconfig.paths(self._environ, self._wishes.kubeconfig)
            is_named = self._wishes.kubeconfig or self._wishes.context
            inside = (
                None
                if is_named
                else kubeconfig.of_pod(files, self.clock, self._environ, self._wishes.mounted)
            )
            return inside or kubeconfig.choose(files, context=self._wishes.context)
        except BadConnectionError as error:
            raise CommandError(str(error)) from error

    @cached_property
    def _credential(self) -> kubeconfig.ExecCredentialStatus:
        try:
            interactive = sys.stdin.isatty()
            return kubeconfig.credential_of(self._chosen.user, self._environ, interactive=interactive)
        except BadConnectionError as error:
            raise CommandError(str(error)) from error

    def _token(self) -> str:
        file = self._wishes.token_file or self._environ.get(TOKEN_FILE)
        if file:
            try:
                return Path(file).read_text(encoding="ascii").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CommandError(f"The token file {file} cannot be read: {error}.") from error
        try:
            token = self._environ.get(TOKEN) or self._credential.token
        except CommandError as error:
            raise CommandError(f"{error} Or show a token with --token-file or {TOKEN}.") from error
        if not token:
            raise CommandError(
                f"The user of context {self._chosen.context} has no token, perhaps a certificate, and the"
                f" booking server knows people by tokens. {_HOW}"
            )
        account = None if TOKEN in self._environ else account_of(token, names.AUDIENCE)
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
        where = f"{self._wishes.installed}/{names.CLIENT_CONFIG}"
        hint = f"Say where the booking server is with --url or {URL}."
        try:
            with self._connection() as connection, patiently(f"waiting for {connection.server}"):
                kube = KubeClient(connection, self.clock, user_agent=f"{names.PRODUCT}-cli")
                found = kube.get(CONFIG_MAPS, names.CLIENT_CONFIG, namespace=self._wishes.installed)
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
        with tempfile.TemporaryDirectory(prefix=f"{names.PRODUCT}-") as folder:
            yield kubeconfig.connection(self._chosen, self._credential, Path(folder))


def reaching(command: Decorated) -> Decorated:
    """Give a command the options about whom to ask; it gets a ``Reach`` as ``reach``."""
    options = (
        click.option(
            "--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), help="Another kubeconfig."
        ),
        click.option("--context", help="Another context of the kubeconfig.", shell_complete=_contexts),
        click.option("--namespace", "-n", help="A namespace."),
        click.option("--url", envvar=URL, show_envvar=True, help="Where the booking server is."),
        click.option(
            "--token-file",
            envvar=TOKEN_FILE,
            show_envvar=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="A file with the token to show it.",
        ),
        click.option(
            "--ca-file",
            envvar=CA_FILE,
            show_envvar=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help="Who vouches for it (PEM); by default the system's authorities.",
        ),
        click.option(
            "--installed-in",
            default=names.NAMESPACE,
            show_default=True,
            help="Namespace of the installation.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def reach_of(options: dict[str, Any]) -> Reach:
    """Take the options of ``reaching`` out of a command's."""
    wishes = Wishes(
        installed=options.pop("installed_in"),
        **{
            name: options.pop(name)
            for name in ("url", "token_file", "ca_file", "kubeconfig", "context", "namespace")
        },
    )
    return Reach(wishes, os.environ, the_clock(click.get_current_context()))


def the_clock(context: click.Context) -> Clock:
    """The one that the composition root has given."""
    clock: Clock = context.find_root().obj
    return clock


def _contexts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    known = kubeconfig.contexts(kubeconfig.paths(os.environ, context.params.get("kubeconfig")))
    return [each for each in known if each.startswith(incomplete)]
