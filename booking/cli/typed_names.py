"""Names as people type them: not empty; pods' as kubectl accepts them, or copied from our own tables."""

from typing import Any, Final

import click

from booking import wording
from booking.cli.server_connection import ServerConnection

KINDS: Final = ("pod/", "pods/", "po/")
"""What kubectl allows before the name of a pod."""


class Name(click.ParamType[str]):
    """A name. An empty one comes from an unset shell variable, and must not mean everything."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it was typed; empty or blank is an error."""
        text = str(value)
        if not text.strip():
            self.fail("it is empty.", param, ctx)
        return text


NAME: Final = Name()


def namespace_and_name(server: ServerConnection, text: str) -> tuple[str, str]:
    """Namespace and name of a pod given as ``NAME``, ``pod/NAME`` or, as in our tables, ``NAMESPACE/NAME``.

    Raises:
        click.UsageError: it cannot be a pod's name, or two namespaces are named.
        CommandError: no namespace is named, and no context is known.
    """
    prefix = next((each for each in KINDS if text.startswith(each)), "")
    namespace, slash, name = text.removeprefix(prefix).rpartition("/")
    if not name or "/" in namespace or (slash and (prefix or not namespace)):
        raise click.UsageError(f"{wording.quoted(text)} is not a pod: write its NAME, or NAMESPACE/NAME.")
    if not slash:
        return server.namespace, name
    if server.named_namespace not in {None, namespace}:
        raise click.UsageError(
            f"{wording.quoted(text)} is in the namespace {wording.quoted(namespace)}, and --namespace names"
            " another: name one."
        )
    return namespace, name
