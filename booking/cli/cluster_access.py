"""The cluster of the kubeconfig: which namespace and user it names, and what the API server answers.

``server_connection`` loads this module when it is needed: with an address and a token at hand no command is.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from booking import wording
from booking.cli.connection_settings import HOW, TOKEN, URL, ConnectionOptions, whole_token
from booking.cli.errors import CommandError, UnreachableError
from booking.cli.progress import patiently
from cluster import names
from cluster.kube import kubeconfig
from cluster.kube.client import READ_ATTEMPTS, KubeClient
from cluster.kube.connection import ApiServerAccess, BadConnectionError, Connection
from cluster.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from cluster.kube.in_cluster import SERVICE_ACCOUNT, in_cluster
from cluster.kube.interface import Selection
from cluster.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, Resource, T
from cluster.kube.token_request import TokenRequestStatus, account_of, end_of, token_for
from cluster.kube.transport import Timeouts
from cluster.objects.pods import Pod, asks_for_gpus, is_live
from cluster.process import logs
from cluster.process.clock import Clock

_API_SERVER: Final = re.compile(r"^ApiServer\([^)]*\): ")
"""The library's name for the connection in its messages."""
_PAGE: Final = 500
"""Objects per page of a list from the API server."""
_OTHERWISE: Final = f"Or show a token with --token-file or {TOKEN}."


class MadeToken(NamedTuple):
    """A token for the booking server."""

    token: str
    until: datetime | None
    """Its end; None if it is not known, or the token is not to be stored."""


class ClusterAccess:
    """The kubeconfig and the API server; both are read when they are first needed."""

    def __init__(
        self,
        options: ConnectionOptions,
        environ: Mapping[str, str],
        clock: Clock,
        *,
        within: float | None = None,
    ) -> None:
        """As ``ServerConnection``. Silences the logs of what it uses: they are not the command's output."""
        logs.silence()
        self._options = options
        self._environ = environ
        self._clock = clock
        self._within = within

    @property
    def namespace(self) -> str:
        """The namespace of the context.

        Raises:
            CommandError: no context is known.
        """
        return self._chosen.namespace

    @property
    def contexts(self) -> tuple[str, ...]:
        """Names of the contexts of the kubeconfig."""
        return tuple(kubeconfig.contexts(self._options.kubeconfig_files(self._environ)))

    def namespaces(self) -> Iterator[str]:
        """Names of all namespaces; raises as ``_objects``."""
        return (each.metadata.name for each in self._objects(NAMESPACES))

    def pods_of_gpus(self, namespace: str, *, must_run: bool) -> Iterator[str]:
        """Names of pods that request GPUs, or did before they were recreated without; raises as ``_objects``.

        Args:
            namespace: theirs.
            must_run: only those that are on a node and not terminating.
        """
        for pod in self._objects(PODS, namespace=namespace):
            if _runs_on_gpus(pod) if must_run else _has_to_do_with_gpus(pod):
                yield pod.metadata.name

    def token(self) -> MadeToken:
        """A token for the booking server: that of the kubeconfig's user, or one made with it.

        Raises:
            CommandError: there is none.
        """
        user = self._user_to_show()
        try:
            token = self._access.credentials.token()
        except BadConnectionError as error:
            raise CommandError(f"{error} {_OTHERWISE}") from error
        if not token:
            raise CommandError(
                f"The user of context {self._chosen.context} has no token, perhaps a certificate, and the"
                f" booking server knows people by tokens. {HOW}"
            )
        token = whole_token(token, f"of context {self._chosen.context}")
        account = account_of(token, names.AUDIENCE)
        if account is not None:
            made = self._exchanged(account)
            token = whole_token(made.token, f"that {self._access.server} has made")
            until = made.expiration_timestamp
        else:
            until = end_of(token) or (self._made.expiration_timestamp if self._made else None)
        # Another user's token may be in the file in the next moment.
        return MadeToken(token, None if user.token_file else until)

    def _user_to_show(self) -> kubeconfig.UserEntry:
        """The context's user, if it acts as itself."""
        try:
            user = self._chosen.user
        except CommandError as error:
            raise CommandError(f"{error} {_OTHERWISE}") from error
        if user.impersonated:
            raise CommandError(
                f"The context {self._chosen.context} acts as {wording.quoted(user.impersonated)}"
                " (as), and the booking server knows people by their own tokens: choose another context, or"
                f" show that user's token with --token-file or {TOKEN}."
            )
        return user

    def url(self) -> str:
        """The booking server's URL from the ConfigMap that the chart has written.

        Raises:
            CommandError: the cluster does not say it, or cannot be asked.
        """
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

    def _objects(self, resource: Resource[T], *, namespace: str | None = None) -> Iterator[T]:
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
            files = self._options.kubeconfig_files(self._environ)
            is_named = self._options.kubeconfig or self._options.context
            inside = None if is_named or self._pod is None else kubeconfig.of_pod(files, self._mounted)
            return inside or kubeconfig.choose(files, context=self._options.context)
        except BadConnectionError as error:
            raise CommandError(str(error)) from error

    @property
    def _mounted(self) -> Path:
        return self._options.mounted or SERVICE_ACCOUNT

    @cached_property
    def _pod(self) -> Connection | None:
        """The connection of the pod that this is; None outside a pod."""
        with suppress(BadConnectionError):
            return in_cluster(self._clock, self._environ, mounted=self._mounted)
        return None

    @cached_property
    def _made(self) -> kubeconfig.ExecCredentialStatus | None:
        """What the user's credential plugin makes; None without one."""
        program = self._chosen.user.exec
        if program is None:
            return None
        interactive = self._within is None and sys.stdin.isatty()
        with self._making_credentials(interactive=interactive):
            return kubeconfig.made_by(
                program, self._chosen.folder, self._environ, interactive=interactive, within=self._within
            )

    @cached_property
    def _access(self) -> ApiServerAccess:
        """The API server, as the context's user.

        Raises:
            BadConnectionError: the context, or its user's credentials, cannot be used.
        """
        chosen = self._chosen
        if not chosen.documents and self._pod is not None:
            return self._pod
        if not chosen.cluster.server.startswith(("https://", "http://")):
            raise BadConnectionError(
                f"The API server's address {chosen.cluster.server!r} must begin with https://."
            )
        made = self._made
        user = None if made is None else made.as_user()
        with self._patiently("waiting for the credentials of the kubeconfig"):
            try:
                # Half a second, which only a login needs.
                official = import_module("cluster.kube.official_client")
            except ModuleNotFoundError as error:
                raise BadConnectionError(
                    f"The library {error.name} is not installed, which reads the kubeconfig: pipx install"
                    f" '{names.PROGRAM}[cli]'."
                ) from error
            access: ApiServerAccess = official.of_kubeconfig(chosen.documents, chosen.context, user)
            return access

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

    def _exchanged(self, account: tuple[str, str]) -> TokenRequestStatus:
        """A token for the booking server, requested with a ServiceAccount's token for the API server."""
        try:
            connection = self._connection
            with self._patiently(f"waiting for {connection.server}"):
                return token_for(connection, self._clock, account, names.AUDIENCE)
        except BadConnectionError as error:
            raise CommandError(f"{error} {_OTHERWISE}") from error
        except Forbidden as error:
            raise CommandError(
                f"The ServiceAccount {'/'.join(account)} may not make itself a token for the booking server."
                f" {HOW}"
            ) from error
        except ApiError as error:
            raise UnreachableError(
                f"No token for the booking server could be made: {self._trouble(error)}"
            ) from error

    def _trouble(self, error: ApiError) -> str:
        """What went wrong between the client and the API server: a sentence or two."""
        if not isinstance(error, Unreachable):
            return f"{str(error).rstrip('.')}."
        reason = _API_SERVER.sub("", error.message).rstrip(".")
        return (
            f"the API server at {self._access.server} does not answer: {reason}. Is context"
            f" {self._chosen.context} the right one, and is its cluster running?"
        )

    @contextmanager
    def _client(self) -> Iterator[KubeClient]:
        """The API server, as the kubeconfig's user."""
        connection = self._connection
        with self._patiently(f"waiting for {connection.server}"):
            kube = KubeClient(
                connection,
                self._clock,
                user_agent=names.CLI,
                timeouts=Timeouts(connect=self._within, read=self._within) if self._within else None,
                read_attempts=1 if self._within else READ_ATTEMPTS,
            )
            try:
                yield kube
            finally:
                kube.close()

    @property
    def _connection(self) -> ApiServerAccess:
        """The connection to the API server, if it is one that verifies the server and says who asks.

        Raises:
            BadConnectionError: it is not, or cannot be used.
        """
        chosen = self._chosen
        if chosen.cluster.insecure_skip_tls_verify:
            raise BadConnectionError(
                f"The context {chosen.context} does not verify its API server (insecure-skip-tls-verify), and"
                " nothing is asked of a server that nobody has verified."
            )
        if chosen.user.impersonated:
            raise BadConnectionError(f"The context {chosen.context} says as, which is not understood here.")
        return self._access


def _runs_on_gpus(pod: Pod) -> bool:
    return asks_for_gpus(pod) and is_live(pod) and bool(pod.spec.node_name)


def _has_to_do_with_gpus(pod: Pod) -> bool:
    return asks_for_gpus(pod) or pod.metadata.annotation(names.USER) is not None
