"""What ends a command: a sentence for people, and an exit status for scripts."""

import click


class CommandError(click.ClickException):
    """The booking server, or we, will not do it; nothing was changed unless the message says so."""

    exit_code = 1


class UnreachableError(CommandError):
    """Nobody could be asked: it is worth another try."""

    exit_code = 3
