"""The options of every command that calls a server: which server, and which credentials."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from booking.cli.connection_settings import CA_FILE, TOKEN_FILE, URL, ConnectionOptions
from booking.cli.deadline import EACH_SECONDS, found_in_time
from booking.cli.server_connection import ServerConnection
from booking.cli.typed_names import NAME
from cluster import names
from cluster.process.clock import Clock

_OPTIONS: Final = ("url", "token_file", "ca_file", "kubeconfig", "context", "namespace")
"""The options, by their names in ``ConnectionOptions``."""
_INSTALLED: Final = "installed_in"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def connection_options(command: Decorated) -> Decorated:
    """Add the options that choose the server to a command; ``connection_of`` turns them into a connection."""
    options = (
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The kubeconfig; by default the files in KUBECONFIG, else ~/.kube/config.",
        ),
        click.option(
            "--context",
            help="A context of the kubeconfig; by default the current one.",
            shell_complete=_known_contexts,
        ),
        click.option(
            "--namespace",
            "-n",
            type=NAME,
            help="Namespace of a POD, by default the context's; or the only one that a new booking covers.",
            shell_complete=_known_namespaces,
        ),
        click.option(
            "--url",
            envvar=URL,
            show_envvar=True,
            help="Address of the booking server; by default the one that the cluster names.",
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
            shell_complete=_known_namespaces,
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def connection_of(options: dict[str, Any]) -> ServerConnection:
    """Remove the options of ``connection_options`` from a command's and return their connection."""
    for name in (*_OPTIONS, _INSTALLED):
        del options[name]
    context = click.get_current_context()
    return ServerConnection(_given(context), os.environ, the_clock(context))


def quick_connection(context: click.Context) -> ServerConnection:
    """From the options before the word that a shell completes; see ``booking.cli.deadline``."""
    return ServerConnection(_given(context), os.environ, the_clock(context), within=EACH_SECONDS)


def _given(context: click.Context) -> ConnectionOptions:
    installed = _value(context, _INSTALLED) or names.NAMESPACE
    return ConnectionOptions(installed=installed, **{name: _value(context, name) for name in _OPTIONS})


def _value(context: click.Context, name: str) -> Any:
    """An option's value: as typed after the verb, else as typed before it, else from the environment."""
    around: click.Context | None = context
    while around is not None:
        if around.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            return around.params.get(name)
        around = around.parent
    return context.params.get(name)


def the_clock(context: click.Context) -> Clock:
    """The clock that the composition root has passed in."""
    clock: Clock = context.find_root().obj
    return clock


def _known_contexts(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    def find() -> Iterator[CompletionItem]:
        known = quick_connection(context).cluster.contexts
        return (CompletionItem(each) for each in known if each.startswith(incomplete))

    return found_in_time(find)


def _known_namespaces(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    def find() -> Iterator[CompletionItem]:
        names_of_all = quick_connection(context).cluster.namespaces()
        return (CompletionItem(each) for each in names_of_all if each.startswith(incomplete))

    return found_in_time(find)
