"""``kubectl gpu queue``."""

from collections.abc import Sequence
from typing import Any

import click

from booking import wording
from booking.cli import output as printed
from booking.cli.completions import known_models
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import Column, Format, Row, printing
from booking.cli.server_connection import ServerConnection
from booking.cli.typed_names import NAME

_HIDDEN = "(somebody)"


@click.command()
@click.option("--model", type=NAME, shell_complete=known_models, help="Only the line for this model.")
@printing
@connection_options
def queue(output: Format, **options: Any) -> None:
    """Show who waits for GPUs without a booking, in the order of their turns.

    The first lines say what you hold of each model and what you deserve, as long as others want some, too.
    """
    server = connection_of(options)
    model = options["model"]
    answer = server.api.get("/queue", {"model": model} if model else {})
    rows = [{"model": one["model"], **pod} for one in answer["models"] for pod in one["pods"]]
    printed.show(
        answer,
        rows,
        _columns(server, rows) if output in {"table", "wide"} else (),
        output=output,
        name=lambda row: f"pod/{row['name'] or _HIDDEN}",
        empty="No pod waits for GPUs without a booking.",
        summary="\n".join(map(_of_model, answer["models"])),
    )


def _of_model(model: Row) -> str:
    """What the user holds and deserves: ``A100: you hold 4 and deserve 2 of 8``."""
    mine = [user for user in model["users"] if user["is_mine"]]  # of each group in which they have pods
    others = len(model["users"]) - len(mine)
    beside = f"{wording.counted(others, 'other user')} hold or want some" if others else ""
    if not mine:
        return f"{model['model']}: {beside or 'nobody holds or wants any'} of {model['gpus']}."
    holds, deserves = (sum(user[key] for user in mine) for key in ("holds", "deserves"))
    held = f"you hold {holds} and deserve {deserves:g} of {model['gpus']}"
    return f"{model['model']}: {held}{'; ' if beside else ''}{beside}.{_of_groups(model)}"


def _columns(server: ServerConnection, rows: Sequence[Row]) -> tuple[Column, ...]:
    zone, now = server.zone if rows else None, server.clock.now()

    def since(row: Row) -> str | None:
        return printed.short(row["since"], zone, now) if zone else None

    def due(row: Row) -> str | None:
        return printed.short(row["turn_due"], zone, now) if zone and _in_turn(row) else None

    def taken(row: Row) -> str | None:
        return printed.short(row["taken_at"], zone, now) if zone and _takes_back(row) else None

    return (
        Column("MODEL", lambda r: r["model"], may_be_cut=True),
        Column("PLACE", _place),
        Column("USER", lambda r: r["user"] or _HIDDEN, may_be_cut=True),
        Column("POD", lambda r: f"{r['namespace']}/{r['name']}" if r["name"] else _HIDDEN, may_be_cut=True),
        Column("GPUS", lambda r: r["gpus"]),
        Column("SINCE", since),
        *([Column("TURN DUE", due)] if any(map(_in_turn, rows)) else ()),
        *([Column("TAKEN BACK", taken)] if any(map(_takes_back, rows)) else ()),
    )


def _in_turn(row: Row) -> bool:
    return row.get("turn_due") is not None


def _takes_back(row: Row) -> bool:
    return row.get("taken_at") is not None


def _place(row: Row) -> Any:
    """Its place in line; of a gang that is not complete, how many of its pods there are."""
    if row["position"] is None:
        return f"{row['gang_pods']} of {row['gang_size']} pods"
    return row["position"] or "starts"


def _of_groups(model: Row) -> str:
    """What your group has: ``In it the group vision holds 4 and deserves 6.``."""
    mine = (group for group in model.get("groups", ()) if group["is_mine"])
    return "".join(
        f" The group {group['group']} holds {group['holds']} and deserves {group['deserves']:g}."
        for group in mine
    )
