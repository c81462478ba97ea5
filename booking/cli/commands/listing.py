"""``kubectl gpu bookings``."""

from typing import Any

import click

from booking.cli import bookings
from booking.cli.api import part
from booking.cli.completions import bookings_in, known_models
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.errors import CommandError
from booking.cli.output import FOR_PEOPLE, Format, printing
from booking.cli.typed_names import NAME


@click.command("bookings")
@click.argument("booking", type=NAME, required=False, shell_complete=bookings_in())
@click.option("--past", is_flag=True, help="Also those that are over or cancelled.")
@click.option("--user", type=NAME, help="Those of this user; for administrators.")
@click.option("--all-users", "-A", is_flag=True, help="Those of all users; for administrators.")
@click.option(
    "--model",
    type=NAME,
    shell_complete=known_models,
    help="Only those of this model; a part of its name is enough.",
)
@printing
@connection_options
def listing(booking: str | None, output: Format, **options: Any) -> None:
    """Show your bookings, or one BOOKING by its id."""
    server = connection_of(options)
    if booking:
        one = server.api.get(f"/bookings/{part(booking)}")
        bookings.show(server, one, [one], output)
        bookings.warn(server, one, output)
        return
    me = server.api.get("/me")
    if options["all_users"] and not me["is_administrator"]:
        raise CommandError(f"Only administrators may see everybody's bookings, and {me['user']} is none.")
    is_others = options["all_users"] or options["user"] not in {None, me["user"]}
    query = {
        "past": True if options["past"] else None,
        # An administrator who names no user gets all bookings.
        "user": None if options["all_users"] else options["user"] or me["user"],
        "model": bookings.model_of(server, options["model"]) if options["model"] else None,
    }
    found = server.api.pages("/bookings", "bookings", query)
    empty = "No bookings. Book with: kubectl gpu book MODEL --for 2d"
    if is_others:
        empty = "No bookings."
    if options["model"] and not found and output in FOR_PEOPLE:
        # Of a model that is gone there may still be bookings; without any, the name is likely to be mistyped.
        empty = f"No bookings of {bookings.known_model(server, options['model'])}."
    bookings.show(server, {"bookings": found}, found, output, empty=empty, has_users=is_others)
