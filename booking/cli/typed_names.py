"""Names as people type them: not empty; of pods as kubectl has them, or copied from our own tables."""

from typing import Any, Final

import click

from booking import wording
from booking.cli.server_connection import ServerConnection

KINDS: Final = ("pod/", "pods/", "po/")
"""What kubectl lets people write before the name of a pod."""


class Name(click.ParamType[str]):
    """A name of anything. An empty one is a variable that is not set: it must not mean everything."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it was typed; empty or blank is an error."""
        text = str(value)
        if not text.strip():
            self.fail("it is empty.", param, ctx)
        return text


NAME: Final = Name()


def namespace_and_name(server: ServerConnection, text: str) -> tuple[str, str]:
    """Which pod is meant by ``NAME``, ``pod/NAME`` or, as tables show it, ``NAMESPACE/NAME``.

    Raises:
        click.UsageError: it can be none, or two namespaces are named.
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
