"""The commands and options of the command line, from the commands themselves."""

from collections.abc import Iterator

import click

from booking.cli.__main__ import gpu
from docs.tables.markdown import code, prose, table


def commands_table() -> str:
    """Every command, its options and what it does."""
    return table(
        ("command", "options", "what it does"),
        (
            (
                code(f"kubectl gpu {path}"),
                ", ".join(code(each) for each in _own(command)),
                prose(_help_text(command)),
            )
            for path, command in _commands(gpu, ())
        ),
    )


def shared_options_table() -> str:
    """Options of every command that asks the booking server."""
    return table(
        ("option", "environment", "meaning"),
        (
            (
                code(", ".join(option.opts)),
                code(str(option.envvar)) if option.envvar else "",
                option.help or "",
            )
            for option in _shared()
        ),
    )


def _commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command, words = _command(group, name), (*path, name)
        if isinstance(command, click.Group):
            yield from _commands(command, words)
        else:
            arguments = [p.make_metavar(click.Context(command)) for p in command.params if _is_word(p)]
            yield " ".join((*words, *arguments)), command


def _shared() -> list[click.Option]:
    """The options that two very different commands have in common, and so every command."""
    listed = [parameter.name for parameter in _command(gpu, "why").params]
    return [p for p in _command(gpu, "status").params if isinstance(p, click.Option) and p.name in listed]


def _command(group: click.Group, name: str) -> click.Command:
    command = group.get_command(click.Context(group), name)
    if command is None:
        raise LookupError(f"There is no command {name}.")
    return command


def _own(command: click.Command) -> list[str]:
    shared = {option.name for option in _shared()}
    options = (p for p in command.params if isinstance(p, click.Option) and p.name not in shared)
    return ["/".join([max(option.opts, key=len), *option.secondary_opts]) for option in options]


def _is_word(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Argument)


def _help_text(command: click.Command) -> str:
    return " ".join((command.help or "").split())
