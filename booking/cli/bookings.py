"""How the command line shows bookings, and what several commands share about them."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from booking import share_sizes, wording
from booking.cli import output
from booking.cli.api import offers
from booking.cli.errors import CommandError
from booking.cli.output import Column, Format, Row
from booking.cli.server_connection import ServerConnection
from booking.cli.time_parsing import UnclearTimeError
from cluster import names

MEMORY: Final = "MEMORY"
"""What the help calls an amount that ``memory_of`` reads."""
_LIVE: Final = frozenset({"planned", "active"})

T = TypeVar("T")


def columns(server: ServerConnection, *, has_users: bool = False) -> tuple[Column, ...]:
    """Columns of a table of bookings, with the owner where others' bookings may be listed."""
    zone, now = server.zone, server.clock.now()
    return (
        Column("ID", lambda b: b["id"]),
        Column("MODEL", lambda b: b["model"], may_be_cut=True),
        Column("GPUS", gpus),
        Column("STATE", state, colour=_colour),
        Column("START", lambda b: output.short(b["start"], zone, now)),
        Column("END", lambda b: output.short(b["end"], zone, now)),
        Column("LEFT", lambda b: _left(b, now), wide=has_users),
        Column("USER", lambda b: b.get("user"), wide=not has_users, may_be_cut=True),
        Column("NAMESPACE", lambda b: b.get("namespace") or "all", wide=True),
        Column("TOPOLOGY", lambda b: b.get("topology"), wide=True),
        Column("NODE", _nodes, wide=True),
        Column(
            "CREATED", lambda b: output.local(b["created"], zone) if b.get("created") else None, wide=True
        ),
        Column("BY", lambda b: b.get("created_by"), wide=True),
        Column("REASON", lambda b: b.get("reason"), wide=True),
    )


def gpus(booking: Row) -> str:
    """How many GPUs, and of shares how much of each: ``2``, ``2 x 20 GiB``."""
    count = str(booking["count"])
    return f"{count} x {wording.mebibytes(booking['memory'])}" if booking.get("memory") else count


def state(booking: Row) -> str:
    """A booking's state, and whether it is at risk."""
    return f"{booking['state']}, at risk" if booking.get("at_risk") else str(booking["state"])


def show(
    server: ServerConnection,
    answer: dict[str, Any],
    bookings: Sequence[Row],
    form: Format,
    *,
    empty: str = "",
    has_users: bool = False,
) -> None:
    """Print bookings in the form that was asked for, or ``empty`` where there are none."""
    is_for_people = form in output.FOR_PEOPLE
    output.show(
        answer,
        bookings,
        columns(server, has_users=has_users) if is_for_people and bookings else (),
        output=form,
        name=lambda b: f"booking/{b['id']}",
        empty=empty,
        summary=_summary(server, bookings) if is_for_people and len(bookings) > 1 else "",
    )


def _summary(server: ServerConnection, bookings: Sequence[Row]) -> str:
    """How many there are of each state, and in which zone times are."""
    many = wording.counted(len(bookings), "booking")
    return f"{many}: {output.counts(map(state, bookings))}. Times are those of {server.zone.key}."


def _colour(booking: Row) -> str | None:
    if booking.get("at_risk"):
        return "red"
    return {"active": "green", "planned": "cyan"}.get(booking["state"])


def warn(server: ServerConnection, booking: Row, form: Format) -> None:
    """Show people what they could have instead of a booking at risk; programs have it in the answer."""
    if form not in output.FOR_PEOPLE or not booking.get("at_risk"):
        return
    click.echo("At risk: there are not enough GPUs for it as things are. It is not cancelled by itself.")
    instead = [server.localized(line) for line in offers(booking.get("alternatives") or ())]
    if instead:
        click.echo("\n".join(["What would be accepted instead:", *instead]))


def print_booking(server: ServerConnection, booking: dict[str, Any], form: Format, message: str) -> None:
    """Print the result for one booking: a message for people, the booking for programs."""
    if form == "table":
        click.echo(message)
    else:
        show(server, booking, [booking], form)
    if booking.get("pods") and form in output.FOR_PEOPLE:
        click.echo(booking["pods"])
    if booking.get("note"):
        click.echo(booking["note"], err=True)
    for warning in booking.get("warnings") or () if form in output.FOR_PEOPLE else ():
        click.echo(f"Warning: {output.printable(warning)}", err=True)


def book(
    server: ServerConnection, path: str, body: Mapping[str, Any], form: Format, *, dry_run: bool
) -> None:
    """Book what a body requests and print the booking; with ``dry_run``, what would be booked."""
    made = server.api.ask(
        "POST",
        path,
        dict(body),
        query={"dry_run": True} if dry_run else None,
        headers={"Idempotency-Key": str(uuid.uuid4())},
    )
    whom = f" for {made['user']}" if body.get("user") else ""
    what = summary_of(server, made)
    if not dry_run:
        print_booking(server, made, form, f"Booked as {made['id']}{whom}: {what}.")
        return
    is_for_people = form in {*output.FOR_PEOPLE, "name"}
    shown = {"id": "(none)", "state": "planned", **made} if is_for_people else made
    print_booking(server, shown, form, f"This would be booked{whom}: {what}.")


def summary_of(server: ServerConnection, booking: Row) -> str:
    """``2 x NVIDIA-A100 from Mon ... to Fri ... (Europe/Stockholm)``."""
    start, end = (output.local(booking[key], server.zone) for key in ("start", "end"))
    share = f"{wording.mebibytes(booking['memory'])} of " if booking.get("memory") else ""
    return f"{booking['count']} x {share}{booking['model']} from {start} to {end} ({server.zone.key})"


def parsed(read: Callable[..., T], *arguments: Any) -> T:
    """Call a parser of the user's input.

    Raises:
        click.UsageError: the input cannot be understood.
    """
    try:
        return read(*arguments)
    except UnclearTimeError as error:
        raise click.UsageError(str(error)) from error


def model_of(server: ServerConnection, word: str) -> str:
    """The only model whose name contains the word; the word itself if there is none.

    Raises:
        CommandError: several models have such a name.
    """
    found = _called(word, _models(server))
    if len(found) > 1:
        raise CommandError(_several(word, found))
    return found[0] if found else word


def memory_of(server: ServerConnection, text: str, model: str) -> int:
    """MiB of each GPU of a model, for an amount that was typed.

    Raises:
        click.UsageError: it is no amount.
    """

    def offered() -> int | None:
        models = server.api.get("/availability").get("models", ())
        return next((each.get("memory") for each in models if each["model"] == model), None)

    try:
        return share_sizes.mebibytes_of(text, offered)
    except share_sizes.ShareSizeError as error:
        raise click.UsageError(str(error)) from error


def known_model(server: ServerConnection, word: str) -> str:
    """The model whose name contains the word; the word itself while no model is known.

    Raises:
        CommandError: no model, or several, have such a name.
    """
    known = _models(server)
    found = _called(word, known)
    if len(found) > 1:
        raise CommandError(_several(word, found))
    if known and not found:
        text = f"No model's name contains {wording.quoted(word)}: there are {wording.listed(known)}."
        raise CommandError(text)
    return found[0] if found else word


def _several(word: str, found: Sequence[str]) -> str:
    return f"{len(found)} models contain {wording.quoted(word)}: {wording.listed(found)}. Name one of them."


def _models(server: ServerConnection) -> list[str]:
    return [str(each["model"]) for each in server.api.get("/availability").get("models", ())]


def _called(word: str, known: Sequence[str]) -> list[str]:
    """The model of exactly this name, else all that contain it; case is ignored, any spelling counts.

    The models of MIG devices contain that of their GPU: they count only if no GPU's model contains the word.
    """
    folded = names.model_label(word).casefold()
    same = [each for each in known if each.casefold() == folded]
    found = [each for each in known if folded in each.casefold()]
    return same or [each for each in found if names.mig_profile(each) is None] or found


def _left(booking: Row, now: datetime) -> str | None:
    if booking["state"] not in _LIVE:
        return None
    end, start = (datetime.fromisoformat(booking[key]) for key in ("end", "start"))
    until = start if booking["state"] == "planned" else end
    length = output.span((until - now).total_seconds())
    return f"in {length}" if booking["state"] == "planned" else length


def _nodes(booking: Row) -> str:
    return ", ".join(place["node"] for place in booking.get("nodes") or ())
