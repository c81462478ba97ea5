"""``kubectl gpu extend``, ``move``, ``resize``, ``release`` and ``cancel``."""

from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import click

from booking.cli import bookings
from booking.cli.api import part
from booking.cli.completions import bookings_in
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import Format, printing, trying
from booking.cli.server_connection import ServerConnection
from booking.cli.time_parsing import LENGTH, TIME, instant_of, length_of, start_of
from booking.cli.typed_names import NAME
from booking.durations import after, before, between


@click.command()
@click.argument("booking", type=NAME, shell_complete=bookings_in())
@click.option("--to", "end", metavar=TIME, help="Its new end; an earlier one shortens it.")
@click.option(
    "--by", "length", metavar=LENGTH, help="How much longer, instead of --to: 1d, 12h; -2d: shorter."
)
@trying
@printing
@connection_options
def extend(booking: str, output: Format, **options: Any) -> None:
    """Let a BOOKING end later, or earlier. Where that is refused, it stays as it was.

    "kubectl gpu book --help" says how to write a TIME.
    """
    server = connection_of(options)
    if bool(options["end"]) == bool(options["length"]):
        raise click.UsageError(
            "Say until when with --to, or how much longer (1d) or shorter (-1d) with --by."
        )
    now = _show(server, booking)
    if options["end"]:
        end = bookings.parsed(instant_of, options["end"], server.clock.now(), server.zone)
    else:
        length = bookings.parsed(length_of, options["length"].strip().removeprefix("-"))
        shift = before if options["length"].strip().startswith("-") else after
        end = shift(datetime.fromisoformat(now["end"]), length, server.zone)
    _change(server, now, {"end": end.isoformat()}, output, dry_run=options["dry_run"])


@click.command()
@click.argument("booking", type=NAME, shell_complete=bookings_in("planned"))
@click.option(
    "--from", "start", required=True, metavar=TIME, help="Its new start; it lasts as long as before."
)
@trying
@printing
@connection_options
def move(booking: str, output: Format, **options: Any) -> None:
    """Let a planned BOOKING start at another time.

    "kubectl gpu book --help" says how to write a TIME.
    """
    server = connection_of(options)
    now = _show(server, booking)
    start = bookings.parsed(start_of, options["start"], server.clock.now(), server.zone)
    end = _moved(now, start, server.zone)
    change = {"start": start.isoformat(), "end": end.isoformat()}
    _change(server, now, change, output, dry_run=options["dry_run"])


@click.command()
@click.argument("booking", type=NAME, shell_complete=bookings_in())
@click.option("--gpus", "-g", type=int, help="How many GPUs it is to have.")
@click.option("--memory", metavar=bookings.MEMORY, help="How large each of its shares is to be: 20Gi, 25%.")
@trying
@printing
@connection_options
def resize(booking: str, output: Format, **options: Any) -> None:
    """Give a BOOKING more GPUs, or fewer, in the same time; or larger shares of them, or smaller ones."""
    server = connection_of(options)
    if options["gpus"] is None and not options["memory"]:
        raise click.UsageError("Say how many GPUs with --gpus, or how large a share with --memory.")
    now = _show(server, booking)
    change = {} if options["gpus"] is None else {"count": options["gpus"]}
    if options["memory"]:
        change["memory"] = bookings.memory_of(server, options["memory"], now["model"])
    _change(server, now, change, output, dry_run=options["dry_run"])


@click.command()
@click.argument("booking", type=NAME, shell_complete=bookings_in("active"))
@click.option("--reason", help="Why; required of an administrator for somebody else's booking.")
@trying
@printing
@connection_options
def release(booking: str, output: Format, **options: Any) -> None:
    """Give a running BOOKING back: it ends now.

    Shows what becomes of its pods; with --dry-run, before anything is done.
    """
    server = connection_of(options)
    _end(server, ("POST", f"/bookings/{part(booking)}/release"), "released", output, **options)


@click.command()
@click.argument("booking", type=NAME, shell_complete=bookings_in("planned"))
@click.option("--reason", help="Why; required of an administrator for somebody else's booking.")
@trying
@printing
@connection_options
def cancel(booking: str, output: Format, **options: Any) -> None:
    """Cancel a planned BOOKING. A running one is released instead: "kubectl gpu release"."""
    server = connection_of(options)
    _end(server, ("DELETE", f"/bookings/{part(booking)}"), "cancelled", output, **options)


def _end(
    server: ServerConnection,
    what: tuple[str, str],
    done: str,
    form: Format,
    *,
    reason: str | None,
    dry_run: bool,
    **_: object,
) -> None:
    """End a booking with this method and path, or show what would happen."""
    body = {"reason": reason} if reason else None
    made = server.api.ask(*what, body, query={"dry_run": True} if dry_run else None)
    # A user who ends another user's booking should read whose it was.
    which = f"{made['id']} of {made['user']}" if made.get("ended_by") else made["id"]
    message = f"{which} would be {done} now." if dry_run else f"{done.capitalize()} {which}."
    bookings.print_booking(server, made, form, message)


def _show(server: ServerConnection, booking: str) -> dict[str, Any]:
    return server.api.get(f"/bookings/{part(booking)}")


_CHANGED: Final = frozenset({"nodes", "at_risk", "alternatives"})
"""The fields that the server decides again with each change."""


def _change(
    server: ServerConnection, booking: dict[str, Any], change: dict[str, Any], form: Format, *, dry_run: bool
) -> None:
    made = server.api.ask(
        "PATCH",
        f"/bookings/{part(booking['id'])}",
        change,
        query={"dry_run": True} if dry_run else None,
        # If it has been changed since it was read, the server refuses.
        headers={"If-Match": f'"{booking["version"]}"'},
    )
    # A field that the answer leaves out is empty. A dry run leaves out more: that comes from the booking as
    # it was, apart from what the server decides again.
    known = {key: value for key, value in booking.items() if key not in _CHANGED} if dry_run else {}
    merged = {**known, **made}
    what = bookings.summary_of(server, merged)
    tense = "would be" if dry_run else "is"
    bookings.print_booking(server, merged, form, f"{booking['id']} {tense} now: {what}.")


def _moved(booking: dict[str, Any], start: datetime, zone: ZoneInfo) -> datetime:
    """The end that keeps the booking's length, by the clocks of the zone."""
    was, end = (datetime.fromisoformat(booking[key]) for key in ("start", "end"))
    return after(start, between(was, end, zone), zone)
