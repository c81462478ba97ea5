"""Which context of a kubeconfig is meant, and who makes its credentials. Only the command line uses it.

The official client reads the rest (``cluster.kube.official_client``). In what follows its release 37 differs
from kubectl: the first file that names a current context counts; a credential plugin says whether it asks
something, has a terminal if its input is one, a time limit, and a message where it fails. Sources: client-go
``clientcmd/api/v1``, ``client.authentication.k8s.io/v1``.
"""

import base64
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import msgspec.yaml

from cluster.kube.connection import BadConnectionError
from cluster.objects.meta import Instant

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
    insecure_skip_tls_verify: bool = False


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

    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    exec: ExecEntry | None = None
    impersonated: str | None = msgspec.field(default=None, name="as")


class ContextEntry(_Part, frozen=True):
    """``contexts[].context``."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """One context with its cluster and user."""

    context: str
    namespace: str
    cluster: ClusterEntry
    user: UserEntry
    documents: tuple[tuple[Path, dict[str, Any]], ...] = ()
    """The kubeconfig files that have content, in order; empty for a pod's own context."""
    folder: Path = Path()
    """The folder of the user's kubeconfig."""


class ExecCredentialStatus(msgspec.Struct, frozen=True, rename="camel"):
    """``status`` of a credential plugin's answer."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Instant | None = None

    def as_user(self) -> dict[str, str]:
        """The user's entry of a kubeconfig that has these credentials."""
        pem = {
            "client-certificate-data": self.client_certificate_data,
            "client-key-data": self.client_key_data,
        }
        made = {key: base64.b64encode(text.encode()).decode() for key, text in pem.items() if text}
        return made | ({"token": self.token} if self.token else {})


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of a credential plugin."""

    kind: str
    status: ExecCredentialStatus


def of_pod(files: Sequence[Path], mounted: Path) -> Chosen | None:
    """A pod's own context, from its ServiceAccount; None outside a pod, or if a kubeconfig has content.

    Args:
        files: of the kubeconfig, in order.
        mounted: the folder with the ServiceAccount's files.

    Raises:
        BadConnectionError: a kubeconfig cannot be read.
    """
    if any(_document(path) for path in files) or not (mounted / "token").is_file():
        return None
    namespace = mounted / "namespace"
    return Chosen(
        context="of this pod",
        namespace=_text(namespace) if namespace.is_file() else DEFAULT_NAMESPACE,
        cluster=ClusterEntry(),
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
    _, raw = _entry(documents, "context", name)
    chosen = _convert(raw, ContextEntry, f"the context {name}")
    _, cluster = _entry(documents, "cluster", chosen.cluster)
    path, user = _entry(documents, "user", chosen.user) if chosen.user else (Path(), {})
    return Chosen(
        context=name,
        namespace=chosen.namespace or DEFAULT_NAMESPACE,
        cluster=_convert(cluster, ClusterEntry, f"cluster {chosen.cluster}"),
        user=_convert(user, UserEntry, f"the user {chosen.user}"),
        documents=tuple(documents),
        folder=path.parent,
    )


def contexts(files: Sequence[Path]) -> list[str]:
    """Names of all contexts, sorted, for completion; files that cannot be read are left out."""
    found: list[str] = []
    for path in files:
        with suppress(BadConnectionError):
            found += [each["name"] for each in _entries(_document(path), "context")]
    return sorted(set(found))


def made_by(
    program: ExecEntry,
    folder: Path,
    environ: Mapping[str, str],
    *,
    interactive: bool,
    within: float | None = None,
) -> ExecCredentialStatus:
    """What a credential plugin makes.

    Args:
        program: of the chosen context's user.
        folder: of the user's kubeconfig: a command with a slash is relative to it, others are on the PATH.
        environ: for the plugin.
        interactive: whether it may prompt the user.
        within: seconds in which it must answer, without output on the terminal; None for as long as a person
            may need to sign in.

    Raises:
        BadConnectionError: it fails, or may not run.
    """
    if program.interactive_mode == "Always" and not interactive:
        raise BadConnectionError(
            f"{program.command}, which makes the credentials of the kubeconfig, asks somebody something, and"
            " this is not a terminal."
        )
    interactive = interactive and program.interactive_mode != "Never"
    exec_info = {"apiVersion": program.api_version, "kind": _EXEC_KIND, "spec": {"interactive": interactive}}
    own = {each.name: each.value for each in program.env or ()}
    command = str(folder / program.command) if "/" in program.command else program.command
    try:
        done = subprocess.run(
            [command, *(program.args or ())],
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


def _document(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.yaml.decode(_text(path))
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise BadConnectionError(
            f"The kubeconfig {path} is no YAML: {' '.join(str(error).split())}."
        ) from error
    return found if isinstance(found, dict) else {}


def _entries(document: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    listed = document.get(f"{kind}s")
    named = listed if isinstance(listed, list) else []
    return [each for each in named if isinstance(each, dict) and isinstance(each.get("name"), str)]


def _entry(documents: Sequence[tuple[Path, Mapping[str, Any]]], kind: str, name: str) -> tuple[Path, Any]:
    known: list[str] = []
    for path, document in documents:
        for each in _entries(document, kind):
            if each["name"] == name:
                return path, each.get(kind) or {}
            known.append(each["name"])
    there = ", ".join(sorted(set(known))) or "none"
    raise BadConnectionError(f"The kubeconfig has no {kind} {name!r}; there are: {there}.")


def _convert(raw: Any, into: type[Any], what: str) -> Any:
    try:
        return msgspec.convert(raw, into)
    except msgspec.ValidationError as error:
        raise BadConnectionError(f"In the kubeconfig {what} cannot be read: {error}.") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise BadConnectionError(f"The kubeconfig {path} cannot be read: {error}.") from error
