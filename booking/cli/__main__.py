"""The command line's composition root: ``kubectl gpu``, ``gpu-booking`` and ``python -m booking.cli``."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from booking.cli.commands.admin import admin
from booking.cli.commands.book import book
from booking.cli.commands.changing import cancel, extend, move, release, resize
from booking.cli.commands.demo import demo
from booking.cli.commands.earliest import earliest
from booking.cli.commands.listing import listing
from booking.cli.commands.policy import policy
from booking.cli.commands.status import status
from booking.cli.commands.why import why
from cluster import names
from cluster.process import logs
from cluster.process.clock import Clock, SystemClock

_PLUGIN: Final = "kubectl-gpu"
_NO_FILES: Final = ":4"
_FILES: Final = ":0"
"""Directives of cobra's completion protocol: whether the shell should offer file names of its own."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name=names.PROGRAM)
def gpu() -> None:
    """Book GPUs of this cluster, see who has them, and why a pod waits."""


@click.command(short_help="Print the completion script of a shell.")
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


for _command in (
    book,
    listing,
    extend,
    move,
    resize,
    release,
    cancel,
    earliest,
    status,
    why,
    policy,
    admin,
    demo,
    completion,
):
    gpu.add_command(_command)


def main() -> None:
    """Run one command and end the process with its status."""
    logs.silence()
    is_plugin = Path(sys.argv[0]).name == _PLUGIN
    gpu.main(
        prog_name="kubectl gpu" if is_plugin else names.PROGRAM,
        complete_var=names.COMPLETION_VARIABLE,
        obj=SystemClock(),
    )


def complete() -> None:
    """``kubectl_complete-gpu``: answers kubectl, one completion a line, then a directive."""
    logs.silence()
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
