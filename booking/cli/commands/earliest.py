"""``kubectl gpu earliest``."""

import uuid
from typing import Any

import click

from booking.cli import bookings
from booking.cli import output as printed
from booking.cli.completing import known_models
from booking.cli.output import Column, Format, printing
from booking.cli.reach import reach_of, reaching
from booking.cli.when import instant_of, length_of


@click.command(short_help="Show when GPUs of a MODEL could be had first.")
@click.argument("model", shell_complete=known_models)
@click.option("--gpus", "-g", default=1, show_default=True, help="How many.")
@click.option("--for", "length", required=True, help="How long: 2d (calendar days), 36h.")
@click.option("--after", help="Not before; now by default.")
@click.option("--before", help="It must be over by then.")
@click.option("--single-node/--any-node", default=None, help="Whether all of them must be on one node.")
@click.option("--book", "is_booked", is_flag=True, help="Book the first of them at once.")
@click.option("--user", help="On behalf of somebody else; for administrators.")
@printing
@reaching
def earliest(model: str, output: Format, **options: Any) -> None:
    """Show the first times at which GPUs of a MODEL could be booked for so long, or book the first of them.

    For example: kubectl gpu earliest a100 --gpus 2 --for 3d --before "fri 18:00" --book.
    """
    reach = reach_of(options)
    body: dict[str, Any] = {
        "model": bookings.model_of(reach, model),
        "count": options["gpus"],
        "duration": str(bookings.meant(length_of, options["length"])),
    }
    for name, option in (("not_before", "after"), ("deadline", "before")):
        if options[option]:
            moment = bookings.meant(instant_of, options[option], reach.clock.now(), reach.zone)
            body[name] = moment.isoformat()
    if options["single_node"] is not None:
        body["topology"] = "single-node" if options["single_node"] else "any"
    if reach.named_namespace:
        body["namespace"] = reach.named_namespace
    if options["user"]:
        body["user"] = options["user"]
    if options["is_booked"]:
        made = reach.api.ask("POST", "/slots/booking", body, headers={"Idempotency-Key": str(uuid.uuid4())})
        bookings.tell(reach, made, output, f"Booked as {made['id']}: {bookings.sentence_of(reach, made)}.")
        return
    answer = reach.api.ask("POST", "/slots", body)
    zone = reach.zone
    columns = (
        Column("MODEL", lambda s: s["model"]),
        Column("GPUS", lambda s: s["count"]),
        Column(f"START ({zone.key})", lambda s: printed.local(s["start"], zone)),
        Column("END", lambda s: printed.local(s["end"], zone)),
    )
    printed.show(
        answer,
        answer["slots"],
        columns,
        output=output,
        name=lambda s: str(s["start"]),
        empty="There is no such time. Ask for fewer GPUs, for a shorter time or without --before.",
    )
