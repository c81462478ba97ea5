"""What a command prints: a table for people; JSON, YAML or names for programs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeVar
from zoneinfo import ZoneInfo

import click
import msgspec
import msgspec.yaml

from booking import wording

Format = Literal["table", "wide", "json", "yaml", "name"]
FORMATS: Final[tuple[Format, ...]] = ("table", "wide", "json", "yaml", "name")
FOR_PEOPLE: Final[tuple[Format, ...]] = ("table", "wide")
"""Formats for people; the others are for programs."""
_GAP: Final = 3
_NOTHING: Final = "-"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    value: Callable[[Row], object]
    wide: bool = False
    """Whether only ``-o wide`` shows it."""


def printing(command: Decorated) -> Decorated:
    """Add the option ``-o`` to a command, which gets it as ``output``."""
    option = click.option(
        "--output",
        "-o",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print: table and wide for people, json, yaml and name for programs.",
    )
    return option(command)


def trying(command: Decorated) -> Decorated:
    """Add the option ``--dry-run`` to a command, which gets it as ``dry_run``."""
    option = click.option(
        "--dry-run", is_flag=True, help="Change nothing; only say what the answer would be."
    )
    return option(command)


def show(
    answer: Mapping[str, Any],
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    output: Format,
    name: Callable[[Row], str],
    empty: str,
) -> None:
    """Print an answer.

    Args:
        answer: the server's answer, for programs.
        rows: the part of it that goes into the table.
        columns: of the table.
        output: the format.
        name: of a row, for ``-o name``.
        empty: the message where there are no rows.
    """
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(answer), nl=False)
    elif output == "name":
        for row in rows:
            click.echo(name(row))
    elif rows:
        click.echo(table(rows, [each for each in columns if output == "wide" or not each.wide]))
    else:
        click.echo(empty, err=True)


def print_result(answer: Mapping[str, Any], output: Format, *, name: str, message: str) -> None:
    """Print the result of a change to one object.

    Args:
        answer: the server's answer, for programs.
        output: the format.
        name: of the object, for ``-o name``.
        message: for people.
    """
    if output in FOR_PEOPLE:
        click.echo(message)
    else:
        show(answer, [answer], (), output=output, name=lambda _: name, empty="")


def table(rows: Iterable[Row], columns: Sequence[Column]) -> str:
    """Columns under their titles; no column is wider than its widest cell."""
    lines = [[each.title for each in columns]]
    lines += [[_cell(each.value(row)) for each in columns] for row in rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    gap = " " * _GAP
    return "\n".join(
        gap.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def local(text: object, zone: ZoneInfo) -> str:
    """An instant from the server in a zone's local time: ``Fri 2026-11-27 17:00``."""
    moment = datetime.fromisoformat(str(text)).astimezone(zone)
    return moment.strftime("%a %Y-%m-%d %H:%M")


def localized(message: str, zone: Callable[[], ZoneInfo]) -> str:
    """A message from the server with its instants in local time; the zone is requested only if needed."""
    return wording.with_local_times(
        message, lambda moment: f"{local(moment, zone())} {moment.astimezone(zone()):%Z}"
    )


def span(seconds: float) -> str:
    """A length in its two largest units: ``3d 4h``, ``12min``."""
    left, parts = max(0, int(seconds)), []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts[:2]) or "under 1min"


def printable(text: str) -> str:
    """A text that others wrote, on one line: it must not control this terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _cell(value: object) -> str:
    return printable(_NOTHING if value in {None, ""} else str(value))
