"""Output of administrators' commands: their lists, and the results of changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from booking.cli import output as printed
from booking.cli.output import FOR_PEOPLE, Column, Format, Row
from booking.cli.server_connection import ServerConnection

_NO_ID: Final = "(none)"
"""Shown as the id in a dry run (``--dry-run``)."""


@dataclass(frozen=True)
class Listed:
    """A list for administrators."""

    what: str
    """Its path below ``/admin``, which is also the field of the answer that holds the entries."""
    empty: str
    """The message for an empty list."""
    which: Mapping[str, object] = field(default_factory=dict)
    """Query parameters."""


def show_list(server: ServerConnection, listing: Listed, columns: tuple[Column, ...], output: Format) -> None:
    """Print all pages of a list."""
    found = server.api.pages(f"/admin/{listing.what}", listing.what, listing.which)
    summary = ""
    if output in FOR_PEOPLE and found:
        summary = f"Shown: {len(found)}. Times are those of {server.zone.key}."
    printed.show(
        {listing.what: found},
        found,
        columns,
        output=output,
        name=_name_of,
        empty=listing.empty,
        summary=summary,
    )


def ask(
    server: ServerConnection, method: str, path: str, body: Mapping[str, Any] | None, *, dry_run: bool
) -> dict[str, Any]:
    """Send a request below ``/admin``, possibly as a dry run."""
    sent = None if body is None else dict(body)
    return server.api.ask(method, f"/admin/{path}", sent, query={"dry_run": True} if dry_run else None)


def print_created(answer: Mapping[str, Any], output: Format, message: str, *, dry_run: bool) -> None:
    """Print what was created, or would be, with its id.

    Args:
        answer: the server's.
        output: the format.
        message: for people, without its end: the id follows.
        dry_run: whether it was a dry run, in which case there is no id.
    """
    identifier = _NO_ID if dry_run else str(answer["id"])
    printed.print_result(
        answer, output, name=identifier, message=f"{message}." if dry_run else f"{message}: {identifier}."
    )


def span_of(server: ServerConnection, row: Row) -> str:
    """``from Mon 2026-03-02 09:00 to Fri 2026-03-06 17:00 (Europe/Stockholm)``."""
    start, end = (printed.local(row[edge], server.zone) for edge in ("start", "end"))
    return f"from {start} to {end} ({server.zone.key})"


def span_columns(server: ServerConnection, output: Format) -> tuple[Column, ...]:
    """Start and end, which programs do not need in a table."""
    if output not in FOR_PEOPLE:
        return ()
    zone, now = server.zone, server.clock.now()
    return (
        Column("START", lambda b: printed.short(b["start"], zone, now) if b.get("start") else None),
        Column("END", lambda b: printed.short(b["end"], zone, now) if b.get("end") else None),
    )


def at_column(server: ServerConnection, output: Format) -> Column:
    """The column of the time: by the site's clocks for people, as the server says it for programs."""
    if output not in FOR_PEOPLE:
        return Column("AT", lambda e: e["at"])
    zone, now = server.zone, server.clock.now()
    return Column("AT", lambda e: printed.short(e["at"], zone, now))


def _name_of(row: Row) -> str:
    """The id of a block or exemption, or the number of an audit or demand entry."""
    return str(row["id"] if "id" in row else row["number"])
