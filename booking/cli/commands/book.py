"""``kubectl gpu book``."""

from typing import Any

import click

from booking.cli import bookings
from booking.cli.completions import known_models
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import Format, printing
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
@click.option("--from", "start", metavar=TIME, help="When the booking starts; now by default.")
@click.option("--to", "end", metavar=TIME, help="When it ends.")
@click.option(
    "--for",
    "length",
    metavar=LENGTH,
    help="How long it lasts, instead of --to: 2d (calendar days), 36h, 1d12h.",
)
@click.option(
    "--single-node/--any-node",
    default=None,
    help="Whether all of its GPUs must be on one node; by default they must.",
)
@click.option("--user", type=NAME, help="Book for this user instead of yourself; for administrators.")
@click.option("--dry-run", is_flag=True, help="Book nothing; only say what the answer would be.")
@printing
@connection_options
def book(model: str, output: Format, **options: Any) -> None:
    """Book GPUs of a MODEL, for example: kubectl gpu book a100 --gpus 2 --from "mon 09:00" --for 2d.

    "kubectl gpu status" shows the models. A part of the name is enough where only one model contains it. With
    --namespace the booking covers your pods in that namespace only. With --memory it is of shares of GPUs.

    A TIME is now, today, "tomorrow 9", fri, "mon 09:00", 09:00, +2h, 2026-11-24, "2026-11-24 09:00" or RFC
    3339; without an offset it is meant in the site's time zone.
    """
    server = connection_of(options)
    if bool(options["end"]) == bool(options["length"]):
        raise click.UsageError("Say until when with --to, or how long with --for.")
    body: dict[str, Any] = {"model": bookings.model_of(server, model), "count": options["gpus"]}
    if options["memory"]:
        body["memory"] = bookings.memory_of(server, options["memory"], body["model"])
    now = server.clock.now()
    for name, read in (("start", start_of), ("end", instant_of)):
        if options[name]:
            body[name] = bookings.parsed(read, options[name], now, server.zone).isoformat()
    if options["length"]:
        body["duration"] = str(bookings.parsed(length_of, options["length"]))
    if options["single_node"] is not None:
        body["topology"] = "single-node" if options["single_node"] else "any"
    if server.named_namespace:
        body["namespace"] = server.named_namespace
    if options["user"]:
        body["user"] = options["user"]
    bookings.book(server, "/bookings", body, output, dry_run=options["dry_run"])
