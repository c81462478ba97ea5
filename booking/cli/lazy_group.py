"""A group of commands each of which is loaded when it is typed: a command pays for no other one."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True)
class Verb:
    """A command that is not loaded yet."""

    name: str
    module: str
    """The module that has it, under this name."""
    summary: str
    """Its line in the help of the group, and its short help."""
    attribute: str | None = None
    """Its name in the module where that is another one."""


class LazyGroup(click.Group):
    """A click group with commands that are loaded, and such that are not yet."""

    def __init__(self, *args: Any, verbs: Iterable[Verb] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._verbs = {verb.name: verb for verb in verbs}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self._verbs})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded; None if there is none of that name."""
        if cmd_name in self._verbs and cmd_name not in self.commands:
            self.add_command(self._loaded(self._verbs[cmd_name]), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help, without loading them."""
        rows = [(name, self._summary(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _summary(self, ctx: click.Context, name: str) -> str:
        if verb := self._verbs.get(name):
            return verb.summary
        command = super().get_command(ctx, name)
        return command.get_short_help_str(limit=100) if command else ""

    @staticmethod
    def _loaded(verb: Verb) -> click.Command:
        command: click.Command = getattr(import_module(verb.module), verb.attribute or verb.name)
        command.short_help = verb.summary
        return command
