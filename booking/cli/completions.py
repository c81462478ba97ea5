"""What a shell offers after the tab key: bookings, models, nodes; nothing where nobody answers."""

import os
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from booking.cli.errors import CommandError
from booking.cli.server_connection import ConnectionOptions, ServerConnection, the_clock

_OPTIONS: Final = ("url", "token_file", "ca_file", "kubeconfig", "context")


def known_bookings(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Running and planned bookings: one's own, for an administrator everybody's."""
    return [
        CompletionItem(each["id"], help=f"{each['count']} x {each['model']}, {each['state']}")
        for each in _asked(context, "/bookings", "bookings")
        if each["id"].startswith(incomplete)
    ]


def known_models(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Models that there are; a part of the name is enough, as it is for the command."""
    return [
        CompletionItem(each["model"])
        for each in _asked(context, "/availability", "models")
        if incomplete.casefold() in each["model"].casefold()
    ]


def known_nodes(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Nodes with GPUs."""
    return [
        CompletionItem(each["node"])
        for each in _asked(context, "/now", "nodes")
        if each["node"].startswith(incomplete)
    ]


def _asked(context: click.Context, path: str, field: str) -> list[dict[str, Any]]:
    given: dict[str, Any] = {name: context.params.get(name) for name in _OPTIONS}
    with suppress(CommandError):
        reach = ServerConnection(ConnectionOptions(**given), os.environ, the_clock(context))
        found: list[dict[str, Any]] = reach.api.get(path)[field]
        return found
    return []
