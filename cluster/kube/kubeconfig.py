"""The API server's address and a user's credentials, as kubectl reads them. Only the command line uses it.

Sources: kubectl's kubeconfig (client-go ``clientcmd/api/v1``), and ``client.authentication.k8s.io/v1`` for
credential plugins. Only what the command line needs is read: importing the official client would take half a
second, for one request.
"""

import base64
import binascii
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import msgspec.yaml

from cluster.kube.connection import BadConnectionError, Connection, Credentials, NoToken
from cluster.kube.in_cluster import in_cluster
from cluster.process.clock import Clock

DEFAULT_NAMESPACE: Final = "default"
_EXEC_KIND: Final = "ExecCredential"
_EXEC_INFO: Final = "KUBERNETES_EXEC_INFO"
_EXEC_SECONDS: Final = 60
"""Timeout of a credential plugin: the user may have to sign in in a browser."""


class _Part(msgspec.Struct, frozen=True, rename="kebab"):
    """The parts of a kubeconfig that are read."""


class ClusterEntry(_Part, frozen=True):
    """``clusters[].cluster``."""

    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class EnvEntry(msgspec.Struct, frozen=True):
    """An environment variable for a credential plugin."""

    name: str
    value: str


class ExecEntry(msgspec.Struct, frozen=True, rename="camel"):
    """``users[].user.exec``: a credential plugin."""

    command: str
    api_version: str = "client.authentication.k8s.io/v1"
    args: tuple[str, ...] | None = None
    env: tuple[EnvEntry, ...] | None = None
    install_hint: str | None = None
    interactive_mode: str = "IfAvailable"
    """``Never``, ``IfAvailable`` or ``Always``: whether it may prompt the user."""


class UserEntry(_Part, frozen=True):
    """``users[].user``."""

    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: ExecEntry | None = None
    impersonated: str | None = msgspec.field(default=None, name="as")


class ContextEntry(_Part, frozen=True):
    """``contexts[].context``."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """One context with its cluster and user; paths in it are absolute."""

    context: str
    namespace: str
    cluster: ClusterEntry
    user: UserEntry


class ExecCredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    """``status`` of a credential plugin's answer."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of a credential plugin."""

    kind: str
    status: ExecCredentialStatus


def paths(environ: Mapping[str, str], named: Path | None = None) -> list[Path]:
    """The kubeconfig files, in order: the ``named`` one, or those of ``KUBECONFIG``, or the default one."""
    if named is not None:
        return [named]
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(":") if each]
    return listed or [Path(environ.get("HOME", "/")) / ".kube" / "config"]


def of_pod(files: Sequence[Path], clock: Clock, environ: Mapping[str, str], mounted: Path) -> Chosen | None:
    """A pod's own context, from its ServiceAccount; None outside a pod, or if a kubeconfig has content.

    Args:
        files: the result of ``paths``.
        clock: for the connection.
        environ: the process's environment.
        mounted: the folder with the ServiceAccount's files.

    Raises:
        BadConnectionError: a kubeconfig cannot be read.
    """
    if any(_document(path) for path in files) or not (mounted / "token").is_file():
        return None
    try:
        own = in_cluster(clock, environ, mounted=mounted)
    except BadConnectionError:
        return None
    namespace = mounted / "namespace"
    return Chosen(
        context="of this pod",
        namespace=_text(namespace, "file") if namespace.is_file() else DEFAULT_NAMESPACE,
        cluster=ClusterEntry(server=own.server, certificate_authority=str(mounted / "ca.crt")),
        user=UserEntry(token_file=str(mounted / "token")),
    )


def choose(files: Sequence[Path], *, context: str | None = None) -> Chosen:
    """Resolve a context.

    Args:
        files: in order; of two entries with one name the first counts. A missing file counts as empty.
        context: its name; by default the current one.

    Raises:
        BadConnectionError: a file cannot be read, or a name has no entry.
    """
    documents = [(path, document) for path in files if (document := _document(path))]
    name = context or next((d["current-context"] for _, d in documents if d.get("current-context")), None)
    if name is None:
        where = ", ".join(map(str, files))
        if not documents:
            raise BadConnectionError(
                f"There is no kubeconfig: {where} says nothing. Name one with --kubeconfig."
            )
        raise BadConnectionError(f"No context is chosen in {where}: name one with --context.")
    chosen = _convert(_entry(documents, "context", name), ContextEntry, f"the context {name}")
    return Chosen(
        context=name,
        namespace=chosen.namespace or DEFAULT_NAMESPACE,
        cluster=_convert(
            _entry(documents, "cluster", chosen.cluster), ClusterEntry, f"cluster {chosen.cluster}"
        ),
        user=_convert(_entry(documents, "user", chosen.user), UserEntry, f"the user {chosen.user}")
        if chosen.user
        else UserEntry(),
    )


def contexts(files: Sequence[Path]) -> list[str]:
    """Names of all contexts, sorted, for completion; files that cannot be read are left out."""
    found: list[str] = []
    for path in files:
        with suppress(BadConnectionError):
            found += [each["name"] for each in _entries(_document(path), "context")]
    return sorted(set(found))


def credential_of(
    user: UserEntry, environ: Mapping[str, str], *, interactive: bool, within: float | None = None
) -> ExecCredentialStatus:
    """The token or the certificate of a user.

    Args:
        user: the user of the chosen context.
        environ: for a credential plugin.
        interactive: whether a credential plugin may prompt the user.
        within: seconds in which a credential plugin must answer, without output on the terminal; None for as
            long as a person may need to sign in.

    Raises:
        BadConnectionError: a file cannot be read, or the credential plugin fails.
    """
    if user.exec is not None:
        return _run(user.exec, environ, interactive=interactive, within=within)
    token = user.token
    if user.token_file is not None:
        token = _text(Path(user.token_file), "token file")
    return ExecCredentialStatus(
        token=token,
        client_certificate_data=_inline(user.client_certificate_data, user.client_certificate),
        client_key_data=_inline(user.client_key_data, user.client_key),
    )


class GivenToken:
    """A token that is read once: a command ends long before the token expires."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str | None:
        """The token, always the same."""
        return self._token

    def invalidate(self) -> None:
        """Does nothing: the token is never read again."""


def connection(chosen: Chosen, credential: ExecCredentialStatus, folder: Path) -> Connection:
    """The connection to the API server.

    Args:
        chosen: the context.
        credential: the user's credential.
        folder: a private folder, for inline contents that the TLS library reads from files.

    Raises:
        BadConnectionError: the context or the credential cannot be used.
    """
    where = chosen.cluster
    if where.insecure_skip_tls_verify:
        raise BadConnectionError(
            f"The context {chosen.context} does not verify its API server (insecure-skip-tls-verify), and"
            " nothing is asked of a server that nobody has verified."
        )
    for what, value in (
        ("tls-server-name", where.tls_server_name),
        ("proxy-url", where.proxy_url),
        ("as", chosen.user.impersonated),
    ):
        if value:
            raise BadConnectionError(
                f"The context {chosen.context} says {what}, which is not understood here."
            )
    authority = _decoded(where.certificate_authority_data, folder / "ca.crt")
    if authority is None and where.certificate_authority is not None:
        authority = Path(where.certificate_authority)
    speaks: Credentials = GivenToken(credential.token) if credential.token else NoToken()
    return Connection(
        server=where.server,
        ca_file=authority,
        credentials=speaks,
        client_certificate=_written(credential.client_certificate_data, folder / "client.crt"),
        client_key=_written(credential.client_key_data, folder / "client.key"),
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise BadConnectionError(f"The kubeconfig {path} cannot be read: {error}.") from error
    try:
        found = msgspec.yaml.decode(text)
    except msgspec.DecodeError as error:
        raise BadConnectionError(
            f"The kubeconfig {path} is no YAML: {' '.join(str(error).split())}."
        ) from error
    if not isinstance(found, dict):
        return {}
    return {
        **found,
        **{f"{kind}s": list(_absolute(found, kind, path.parent)) for kind in ("cluster", "user")},
    }


def _absolute(document: Mapping[str, Any], kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Entries with absolute paths: in a kubeconfig they are relative to its folder."""
    files = {"certificate-authority", "client-certificate", "client-key", "tokenFile"}
    for each in _entries(document, kind):
        inner = each.get(kind)
        if isinstance(inner, dict):
            moved = {key: str(folder / str(inner[key])) for key in files & inner.keys() if inner[key]}
            yield {**each, kind: {**inner, **moved, **_program(inner, folder)}}


def _program(user: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """``exec`` with an absolute path if its command has a slash; other commands are searched on the PATH."""
    program = user.get("exec")
    command = program.get("command") if isinstance(program, dict) else None
    if not isinstance(program, dict) or not isinstance(command, str) or "/" not in command:
        return {}
    return {"exec": {**program, "command": str(folder / command)}}


def _entries(document: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    listed = document.get(f"{kind}s")
    named = listed if isinstance(listed, list) else []
    return [each for each in named if isinstance(each, dict) and isinstance(each.get("name"), str)]


def _entry(documents: Sequence[tuple[Path, Mapping[str, Any]]], kind: str, name: str) -> Any:
    known: list[str] = []
    for _, document in documents:
        for each in _entries(document, kind):
            if each["name"] == name:
                return each.get(kind) or {}
            known.append(each["name"])
    there = ", ".join(sorted(set(known))) or "none"
    raise BadConnectionError(f"The kubeconfig has no {kind} {name!r}; there are: {there}.")


def _convert(raw: Any, into: type[Any], what: str) -> Any:
    try:
        return msgspec.convert(raw, into)
    except msgspec.ValidationError as error:
        raise BadConnectionError(f"In the kubeconfig {what} cannot be read: {error}.") from error


def _run(
    program: ExecEntry, environ: Mapping[str, str], *, interactive: bool, within: float | None
) -> ExecCredentialStatus:
    if program.interactive_mode == "Always" and not interactive:
        raise BadConnectionError(
            f"{program.command}, which makes the credentials of the kubeconfig, asks somebody something, and"
            " this is not a terminal."
        )
    interactive = interactive and program.interactive_mode != "Never"
    exec_info = {"apiVersion": program.api_version, "kind": _EXEC_KIND, "spec": {"interactive": interactive}}
    own = {each.name: each.value for each in program.env or ()}
    try:
        done = subprocess.run(
            [program.command, *(program.args or ())],
            env={**environ, **own, _EXEC_INFO: msgspec.json.encode(exec_info).decode()},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if within is None else subprocess.DEVNULL,
            timeout=_EXEC_SECONDS if within is None else within,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=ExecCredential).status
    except FileNotFoundError as error:
        hint = f" {program.install_hint}" if program.install_hint else ""
        raise BadConnectionError(
            f"The kubeconfig wants {program.command} to make the credentials, which is not installed.{hint}"
        ) from error
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
        raise BadConnectionError(
            f"{program.command}, which makes the credentials of the kubeconfig, failed: {error}."
        ) from error


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConnectionError(f"The {what} {path} of the kubeconfig cannot be read: {error}.") from error


def _inline(data: str | None, file: str | None) -> str | None:
    """PEM that is inline in the kubeconfig, or in a file that it names; None if it has neither."""
    if data is not None:
        return _bytes(data).decode()
    return None if file is None else _text(Path(file), "file")


def _decoded(data: str | None, path: Path) -> Path | None:
    return None if data is None else _written(_bytes(data).decode(), path)


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise BadConnectionError(f"Data in the kubeconfig is not base64: {error}.") from error


def _written(pem: str | None, path: Path) -> Path | None:
    if pem is None:
        return None
    path.touch(mode=0o600)
    path.write_text(pem, encoding="ascii")
    return path
