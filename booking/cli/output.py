"""What a command prints: a table for people; JSON, YAML or names for programs."""

import os
import shutil
import sys
from collections import Counter
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
WIDTH: Final = 100
"""Columns of a terminal into which a table fits that is not ``wide``."""
_GAP: Final = 3
_NARROW_GAP: Final = 2
"""Spaces between columns where they would not fit otherwise."""
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
    may_be_cut: bool = False
    """Whether it gives way where a table is too wide: a name whose beginning tells enough."""
    least: int = 8
    """How many letters of a cell are left then."""
    colour: Callable[[Row], str | None] = lambda _row: None
    """The colour of its cell on a terminal, as click names it."""


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
    summary: str = "",
) -> None:
    """Print an answer; on a terminal with a summary before it, and with colours.

    Args:
        answer: the server's answer, for programs.
        rows: the part of it that goes into the table.
        columns: of the table.
        output: the format.
        name: of a row, for ``-o name``.
        empty: the message where there are no rows.
        summary: a line about the rows; other programs do not get it, so that their first line is the titles.
    """
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    elif output == "yaml":
        click.echo(msgspec.yaml.encode(answer), nl=False)
    elif output == "name":
        for row in rows:
            click.echo(name(row))
    elif rows:
        is_seen = sys.stdout.isatty()
        if summary and is_seen:
            click.echo(summary)
        shown = [each for each in columns if output == "wide" or not each.wide]
        limit = None if output == "wide" else max(WIDTH, shutil.get_terminal_size().columns if is_seen else 0)
        click.echo(table(rows, shown, limit, is_coloured=is_seen and not os.environ.get("NO_COLOR")))
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


def table(
    rows: Iterable[Row], columns: Sequence[Column], limit: int | None = None, *, is_coloured: bool = False
) -> str:
    """Columns under their titles; no column is wider than its widest cell.

    Args:
        rows: one per line.
        columns: from left to right.
        limit: how wide it should be; columns that may be cut give way, the widest first. None: as it is.
        is_coloured: whether cells have the colours of their columns.
    """
    known = list(rows)
    lines = [[each.title for each in columns]]
    lines += [[_cell(each.value(row)) for each in columns] for row in known]
    full = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    gap = _GAP if limit is None or _whole(full, _GAP) <= limit else _NARROW_GAP
    widths = full if limit is None else _fitted(full, columns, limit, gap)
    colours: list[list[str | None]] = [[None for _ in columns]]
    colours += [[each.colour(row) if is_coloured else None for each in columns] for row in known]
    return "\n".join(
        _line([_cut(cell, width) for cell, width in zip(line, widths, strict=True)], widths, painted, gap)
        for line, painted in zip(lines, colours, strict=True)
    )


def _line(cells: Sequence[str], widths: Sequence[int], colours: Sequence[str | None], gap: int) -> str:
    last = len(cells) - 1
    parts = [cell if n == last else cell.ljust(widths[n]) for n, cell in enumerate(cells)]
    painted = (
        click.style(part, fg=colour) if colour else part for part, colour in zip(parts, colours, strict=True)
    )
    return (" " * gap).join(painted).rstrip()


def _whole(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _fitted(widths: Sequence[int], columns: Sequence[Column], limit: int, gap: int) -> list[int]:
    fitted = list(widths)
    for _ in range(max(0, _whole(fitted, gap) - limit)):
        spare = [n for n, each in enumerate(columns) if each.may_be_cut and fitted[n] > each.least]
        if spare:
            fitted[max(spare, key=lambda n: fitted[n])] -= 1
    return fitted


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def local(text: object, zone: ZoneInfo) -> str:
    """An instant from the server in a zone's local time: ``Fri 2026-11-27 17:00``."""
    moment = datetime.fromisoformat(str(text)).astimezone(zone)
    return moment.strftime("%a %Y-%m-%d %H:%M")


def short(text: object, zone: ZoneInfo, now: datetime) -> str:
    """As ``local``, for a table: ``Fri 27 Nov 17:00``, with the year if it is another than now."""
    moment = datetime.fromisoformat(str(text)).astimezone(zone)
    is_near = moment.year == now.astimezone(zone).year
    return moment.strftime("%a %d %b %H:%M" if is_near else "%a %Y-%m-%d %H:%M")


def counts(words: Iterable[str]) -> str:
    """How many there are of each, the most frequent first: ``5 free, 2 booked``."""
    return ", ".join(f"{amount} {word}" for word, amount in Counter(words).most_common())


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
