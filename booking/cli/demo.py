"""``demo``: show the product without a cluster, where the extra ``demo`` is installed."""

from importlib.metadata import entry_points
from typing import Final

import click

from booking.cli.errors import CommandError
from cluster import names

_MISSING: Final = f"The demo needs more packages than the command line: pip install '{names.PROGRAM}[demo]'."


@click.command(
    short_help="Show the product in a browser, without a cluster.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def demo(words: tuple[str, ...]) -> None:
    """Show GPU Booking without a cluster: the real product on simulated GPUs, on a port of this machine."""
    found = next(iter(entry_points(group=names.COMMANDS, name="demo")), None)
    if found is None:
        raise CommandError(_MISSING)
    try:
        command: click.Command = found.load()
    except ModuleNotFoundError as error:
        raise CommandError(f"{_MISSING} There is no {error.name} here.") from error
    command.main(args=list(words), prog_name=f"{names.PROGRAM} demo")
