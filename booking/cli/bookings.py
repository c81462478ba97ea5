"""Bookings as the command line shows them, and what several commands need of them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from booking.cli import output
from booking.cli.api import offers
from booking.cli.output import Column, Format, Row
from booking.cli.reach import Reach
from booking.cli.when import UnclearTimeError

_LIVE: Final = frozenset({"planned", "active"})

T = TypeVar("T")


def columns(reach: Reach, *, has_users: bool = False) -> tuple[Column, ...]:
    """Of a table of bookings; whose they are, where they need not be one's own."""
    zone, now = reach.zone, reach.clock.now()
    return (
        Column("ID", lambda b: b["id"]),
        Column("MODEL", lambda b: b["model"]),
        Column("GPUS", lambda b: b["count"]),
        Column("STATE", state),
        Column(f"START ({zone.key})", lambda b: output.local(b["start"], zone)),
        Column("END", lambda b: output.local(b["end"], zone)),
        Column("LEFT", lambda b: _left(b, now)),
        Column("NAMESPACE", lambda b: b.get("namespace") or "all"),
        Column("USER", lambda b: b.get("user"), wide=not has_users),
        Column("TOPOLOGY", lambda b: b.get("topology"), wide=True),
        Column("NODE", _nodes, wide=True),
        Column(
            "CREATED", lambda b: output.local(b["created"], zone) if b.get("created") else None, wide=True
        ),
        Column("BY", lambda b: b.get("created_by"), wide=True),
        Column("REASON", lambda b: b.get("reason"), wide=True),
    )


def state(booking: Row) -> str:
    """Its state, and whether it may not be kept."""
    return f"{booking['state']}, at risk" if booking.get("at_risk") else str(booking["state"])


def show(
    reach: Reach,
    answer: dict[str, Any],
    bookings: Sequence[Row],
    form: Format,
    *,
    empty: str = "",
    has_users: bool = False,
) -> None:
    """Print bookings."""
    is_for_people = form in output.PEOPLES
    output.show(
        answer,
        bookings,
        columns(reach, has_users=has_users) if is_for_people and bookings else (),
        output=form,
        name=lambda b: f"booking/{b['id']}",
        empty=empty,
    )


def warn(reach: Reach, booking: Row, form: Format) -> None:
    """Tell people of a booking at risk what they could have instead; programs have it in the answer."""
    if form not in output.PEOPLES or not booking.get("at_risk"):
        return
    click.echo("At risk: there are not enough GPUs for it as things are. It is not cancelled by itself.")
    instead = [reach.told(line) for line in offers(booking.get("alternatives") or ())]
    if instead:
        click.echo("\n".join(["What would be accepted instead:", *instead]))


def tell(reach: Reach, booking: dict[str, Any], form: Format, sentence: str) -> None:
    """Print what has become of one booking: a sentence for people, else the booking."""
    if form == "table":
        click.echo(sentence)
    else:
        show(reach, booking, [booking], form)
    if booking.get("note"):
        click.echo(booking["note"], err=True)


def sentence_of(reach: Reach, booking: Row) -> str:
    """``2 x NVIDIA-A100 from Mon ... to Fri ... (Europe/Stockholm)``."""
    start, end = (output.local(booking[key], reach.zone) for key in ("start", "end"))
    return f"{booking['count']} x {booking['model']} from {start} to {end} ({reach.zone.key})"


def meant(read: Callable[..., T], *said: Any) -> T:
    """Read what somebody typed.

    Raises:
        click.UsageError: it cannot be understood.
    """
    try:
        return read(*said)
    except UnclearTimeError as error:
        raise click.UsageError(str(error)) from error


def model_of(reach: Reach, word: str) -> str:
    """The model whose name contains the word, where that is one alone; else the word."""
    known = [str(each["model"]) for each in reach.api.get("/availability").get("models", ())]
    folded = word.replace(" ", "-").casefold()
    if any(folded == each.casefold() for each in known):
        return word
    found = [each for each in known if folded in each.casefold()]
    return found[0] if len(found) == 1 else word


def _left(booking: Row, now: datetime) -> str | None:
    if booking["state"] not in _LIVE:
        return None
    end, start = (datetime.fromisoformat(booking[key]) for key in ("end", "start"))
    until = start if booking["state"] == "planned" else end
    length = output.span((until - now).total_seconds())
    return f"begins in {length}" if booking["state"] == "planned" else length


def _nodes(booking: Row) -> str:
    return ", ".join(place["node"] for place in booking.get("nodes") or ())
