"""``gpu-booking completion``: what a shell reads to complete our words."""

import click
from click.shell_completion import get_completion_class

from cluster import names


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
