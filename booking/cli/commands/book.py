"""``kubectl gpu book``."""

import uuid
from typing import Any

import click

from booking.cli import bookings
from booking.cli.completing import known_models
from booking.cli.output import Format, printing
from booking.cli.reach import reach_of, reaching
from booking.cli.when import instant_of, length_of


@click.command(short_help="Book GPUs of a MODEL.")
@click.argument("model", shell_complete=known_models)
@click.option("--gpus", "-g", default=1, show_default=True, help="How many.")
@click.option("--from", "start", help="When it begins; now by default.")
@click.option("--to", "end", help="When it ends.")
@click.option("--for", "length", help="How long it lasts, instead of --to: 2d (calendar days), 36h.")
@click.option(
    "--single-node/--any-node",
    default=None,
    help="Whether all of them must be on one node; yes by default where there are several.",
)
@click.option("--user", help="Book on behalf of somebody else; for administrators.")
@click.option("--dry-run", is_flag=True, help="Only say what would come of it.")
@printing
@reaching
def book(model: str, output: Format, **options: Any) -> None:
    """Book GPUs of a MODEL, for example: kubectl gpu book a100 --gpus 2 --from "mon 09:00" --for 2d.

    A part of the model's name is enough where there is one alone that contains it. With --namespace the
    booking covers your pods in that namespace only.
    """
    reach = reach_of(options)
    if bool(options["end"]) == bool(options["length"]):
        raise click.UsageError("Say until when with --to, or how long with --for.")
    body: dict[str, Any] = {"model": bookings.model_of(reach, model), "count": options["gpus"]}
    now = reach.clock.now()
    for name, text in (("start", options["start"]), ("end", options["end"])):
        if text:
            body[name] = bookings.meant(instant_of, text, now, reach.zone).isoformat()
    if options["length"]:
        body["duration"] = str(bookings.meant(length_of, options["length"]))
    if options["single_node"] is not None:
        body["topology"] = "single-node" if options["single_node"] else "any"
    if reach.named_namespace:
        body["namespace"] = reach.named_namespace
    if options["user"]:
        body["user"] = options["user"]
    made = reach.api.ask(
        "POST",
        "/bookings",
        body,
        query={"dry_run": True} if options["dry_run"] else None,
        headers={"Idempotency-Key": str(uuid.uuid4())},
    )
    what = bookings.sentence_of(reach, made)
    if options["dry_run"]:
        is_for_people = output in {"table", "wide", "name"}
        shown = {"id": "(none)", "state": "planned", **made} if is_for_people else made
        bookings.tell(reach, shown, output, f"This would be booked: {what}.")
    else:
        bookings.tell(reach, made, output, f"Booked as {made['id']}: {what}.")
