"""Errors that end a command: a message for people, and an exit status for scripts."""

import click


class CommandError(click.ClickException):
    """The booking server, or the client, refuses; nothing was changed unless the message says so."""

    exit_code = 1


class UnreachableError(CommandError):
    """No server could be reached: a retry may help."""

    exit_code = 3
