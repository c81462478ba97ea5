"""The command line's composition root: ``kubectl gpu``, ``gpu-booking`` and ``python -m booking.cli``."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from booking.cli.connection_options import connection_options
from booking.cli.lazy_group import LazyGroup, Verb
from cluster import names
from cluster.process.clock import Clock, SystemClock

_PLUGIN: Final = "kubectl-gpu"
_NO_FILES: Final = ":4"
_FILES: Final = ":0"
"""Directives of cobra's completion protocol: whether the shell should offer file names of its own."""


_COMMANDS: Final = "booking.cli.commands"
_CHANGING: Final = f"{_COMMANDS}.changing"
VERBS: Final = (
    Verb("admin", f"{_COMMANDS}.admin", "What administrators do."),
    Verb("book", f"{_COMMANDS}.book", "Book GPUs of a MODEL."),
    Verb("bookings", f"{_COMMANDS}.listing", "Show your bookings, or one BOOKING by its id.", "listing"),
    Verb("cancel", _CHANGING, "Cancel a planned BOOKING."),
    Verb("demo", "booking.cli.demo", "Show the product in a browser, without a cluster."),
    Verb("earliest", f"{_COMMANDS}.earliest", "Show when GPUs of a MODEL could be had first."),
    Verb("extend", _CHANGING, "Let a BOOKING end later, or earlier."),
    Verb("move", _CHANGING, "Let a planned BOOKING start at another time."),
    Verb("policy", f"{_COMMANDS}.policy", "The rules of booking as this installation has them."),
    Verb("queue", f"{_COMMANDS}.queue", "Show who waits for GPUs without a booking, in the order of turns."),
    Verb("release", _CHANGING, "Give a running BOOKING back: it ends now."),
    Verb("resize", _CHANGING, "Give a BOOKING more GPUs, or fewer, in the same time."),
    Verb("status", f"{_COMMANDS}.status", "Show all GPUs: who holds them, and who would be evicted next."),
    Verb("whoami", f"{_COMMANDS}.whoami", "Show your user id, and every name by which you are known."),
    Verb("why", f"{_COMMANDS}.why", "Explain a POD: why it waits, who may take its GPUs."),
)


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@connection_options
@click.version_option(package_name=names.PROGRAM)
def gpu(**_options: Any) -> None:
    """Book GPUs of this cluster, see who has them, and why a pod waits.

    The options may also follow the command.
    """


@gpu.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes gpu-booking in a shell: source <(gpu-booking completion bash).

    kubectl completes "kubectl gpu" by itself where the program kubectl_complete-gpu is on the PATH.
    """
    known = get_completion_class(shell)
    if known is None:
        raise click.UsageError(f"Completion for {shell} is not known.")
    click.echo(known(context.find_root().command, {}, names.PROGRAM, names.COMPLETION_VARIABLE).source())


def main() -> None:
    """Run one command and end the process with its status."""
    is_plugin = Path(sys.argv[0]).name == _PLUGIN
    gpu.main(
        prog_name="kubectl gpu" if is_plugin else names.PROGRAM,
        complete_var=names.COMPLETION_VARIABLE,
        obj=SystemClock(),
    )


def complete() -> None:
    """``kubectl_complete-gpu``: answers kubectl, one completion a line, then a directive."""
    found: list[CompletionItem] = []
    # A user who presses the tab key is in the middle of a line: no error may be printed into it.
    with suppress(Exception):
        found = completions(sys.argv[1:], SystemClock())
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES if all(item.type == "plain" for item in found) else _FILES)


def completions(words: Sequence[str], clock: Clock) -> list[CompletionItem]:
    """Completions of the last word, which is empty where a new word begins."""
    *before, incomplete = words or [""]
    return ShellComplete(gpu, {"obj": clock}, names.PROGRAM, names.COMPLETION_VARIABLE).get_completions(
        before, incomplete
    )


if __name__ == "__main__":
    main()
