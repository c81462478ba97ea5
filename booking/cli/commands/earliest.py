"""``kubectl gpu earliest``."""

from typing import Any

import click

from booking.cli import bookings
from booking.cli import output as printed
from booking.cli.completions import known_models
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import Column, Format, printing
from booking.cli.time_parsing import LENGTH, TIME, instant_of, length_of, start_of
from booking.cli.typed_names import NAME


@click.command()
@click.argument("model", type=NAME, shell_complete=known_models)
@click.option("--gpus", "-g", default=1, show_default=True, help="How many GPUs.")
@click.option(
    "--memory",
    metavar=bookings.MEMORY,
    help="A share of this size of each of the GPUs, instead of whole ones: 20Gi, 8192Mi, 25%.",
)
@click.option(
    "--for", "length", required=True, metavar=LENGTH, help="For how long: 2d (calendar days), 36h, 1d12h."
)
@click.option("--after", metavar=TIME, help="The booking starts at this time or later; now by default.")
@click.option("--before", metavar=TIME, help="The booking is over by this time.")
@click.option(
    "--single-node/--any-node",
    default=None,
    help="Whether all of its GPUs must be on one node; by default they must.",
)
@click.option("--book", "is_booked", is_flag=True, help="Book the first of these times at once.")
@click.option("--dry-run", is_flag=True, help="Book nothing; only say what --book would book.")
@click.option("--user", type=NAME, help="For this user instead of yourself; for administrators.")
@printing
@connection_options
def earliest(model: str, output: Format, **options: Any) -> None:
    """Show the first times at which GPUs of a MODEL could be booked for so long, or book the first of them.

    For example: kubectl gpu earliest a100 --gpus 2 --for 3d --before "fri 18:00" --book.
    "kubectl gpu book --help" says how to write a TIME.
    """
    server = connection_of(options)
    body: dict[str, Any] = {
        "model": bookings.model_of(server, model),
        "count": options["gpus"],
        "duration": str(bookings.parsed(length_of, options["length"])),
    }
    if options["memory"]:
        body["memory"] = bookings.memory_of(server, options["memory"], body["model"])
    for name, option, read in (("not_before", "after", start_of), ("deadline", "before", instant_of)):
        if options[option]:
            moment = bookings.parsed(read, options[option], server.clock.now(), server.zone)
            body[name] = moment.isoformat()
    if options["single_node"] is not None:
        body["topology"] = "single-node" if options["single_node"] else "any"
    if server.named_namespace:
        body["namespace"] = server.named_namespace
    if options["user"]:
        body["user"] = options["user"]
    if options["is_booked"] or options["dry_run"]:
        bookings.book(server, "/slots/booking", body, output, dry_run=options["dry_run"])
        return
    answer = server.api.ask("POST", "/slots", body, query={"despite_planned": True})
    zone = server.zone
    columns = (
        Column("MODEL", lambda s: s["model"]),
        Column("GPUS", bookings.gpus),
        Column(f"START ({zone.key})", lambda s: printed.local(s["start"], zone)),
        Column("END", lambda s: printed.local(s["end"], zone)),
    )
    for warning in answer.get("warnings", ()):
        click.echo(f"Free, but not to be booked yet. {server.localized(warning)}", err=True)
    printed.show(
        answer,
        answer["slots"],
        columns,
        output=output,
        name=lambda s: str(s["start"]),
        empty="There is no such time. Ask for fewer GPUs, for a shorter time or without --before.",
    )
