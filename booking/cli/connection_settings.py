"""What the user and the environment say about the server and the cluster, and the text of a token."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from booking.cli.errors import CommandError
from cluster import names

URL: Final = names.setting("url")
TOKEN: Final = names.setting("token")
TOKEN_FILE: Final = names.setting("token_file")
CA_FILE: Final = names.setting("ca_file")

HOW: Final = (
    f"Get one: kubectl create token NAME -n NAMESPACE --audience {names.AUDIENCE} > FILE; and name it with"
    f" --token-file FILE or {TOKEN_FILE}."
)
"""How people get a token."""


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
    mounted: Path | None = None
    """Where a pod finds its ServiceAccount; by default where kubelets put it."""

    def kubeconfig_files(self, environ: Mapping[str, str]) -> list[Path]:
        """In order: the named one, or those of ``KUBECONFIG``, or the default one."""
        if self.kubeconfig is not None:
            return [self.kubeconfig]
        listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(":") if each]
        return listed or [Path(environ.get("HOME", "/")) / ".kube" / "config"]


def whole_token(text: str, where: str) -> str:
    """A token as it is sent.

    Raises:
        CommandError: it is not a token. It is not shown, because it may be a part of one.
    """
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError(f"What is {where} is not a token. {HOW}")
    return token
