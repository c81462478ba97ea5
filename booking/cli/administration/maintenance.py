"""``kubectl gpu admin blocks``, ``block`` and ``unblock``: maintenance."""

from collections.abc import Mapping
from typing import Any

import click

from booking import wording
from booking.cli import bookings
from booking.cli import output as printed
from booking.cli.administration.answers import Listed, ask, print_created, show_list, span_columns, span_of
from booking.cli.api import part
from booking.cli.completions import known_blocks, known_models, known_nodes
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import FOR_PEOPLE, Column, Format, Row, printing, trying
from booking.cli.server_connection import ServerConnection
from booking.cli.time_parsing import TIME, instant_of, start_of
from booking.cli.typed_names import NAME


@click.command()
@printing
@connection_options
def blocks(output: Format, **options: Any) -> None:
    """Show maintenance that runs or is planned."""
    server = connection_of(options)
    columns = (
        Column("ID", lambda b: b["id"]),
        Column("NODE", lambda b: b["node"], may_be_cut=True),
        Column("MODEL", lambda b: b.get("model") or "all", may_be_cut=True),
        Column("GPUS", lambda b: b.get("count") or "all"),
        *span_columns(server, output),
        Column("REASON", lambda b: b["reason"], may_be_cut=True),
        Column("BY", lambda b: b.get("created_by"), wide=True),
    )
    show_list(server, Listed("blocks", empty="No maintenance is planned."), columns, output)


@click.command(short_help="Block the GPUs of a NODE for maintenance.")
@click.argument("node", type=NAME, shell_complete=known_nodes)
@click.option("--from", "start", metavar=TIME, help="When the maintenance starts; now by default.")
@click.option("--to", "end", required=True, metavar=TIME, help="When it ends.")
@click.option("--reason", required=True, help="Why; users see it.")
@click.option(
    "--model", type=NAME, shell_complete=known_models, help="Only GPUs of this model; by default all."
)
@click.option("--gpus", "-g", type=int, help="Only so many of them; by default all.")
@trying
@printing
@connection_options
def block(node: str, output: Format, *, dry_run: bool, **options: Any) -> None:
    """Block the GPUs of a NODE for maintenance: nobody can book them for that time.

    Bookings that cannot be kept are not cancelled; they are at risk, and are listed: with --dry-run before
    anything is blocked.

    "kubectl gpu book --help" says how to write a TIME.
    """
    server = connection_of(options)
    now = server.clock.now()
    body = {
        "node": node,
        "start": bookings.parsed(start_of, options["start"] or "now", now, server.zone).isoformat(),
        "end": bookings.parsed(instant_of, options["end"], now, server.zone).isoformat(),
        "reason": options["reason"],
    }
    if options["model"]:
        body["model"] = bookings.model_of(server, options["model"])
    if options["gpus"] is not None:
        body["count"] = options["gpus"]
    made = ask(server, "POST", "blocks", body, dry_run=dry_run)
    is_for_people = output in FOR_PEOPLE
    message = (
        f"{_gpus(made)} {_is(made, dry_run=dry_run)} blocked {span_of(server, made)}" if is_for_people else ""
    )
    print_created(made, output, message, dry_run=dry_run)
    if is_for_people:
        _show_risks(server, made, dry_run=dry_run)


@click.command(short_help="Remove a BLOCK: its GPUs can be booked again.")
@click.argument("block", type=NAME, shell_complete=known_blocks)
@click.option("--reason", help="Why; it is written to the audit.")
@trying
@printing
@connection_options
def unblock(block: str, output: Format, *, reason: str | None, dry_run: bool, **options: Any) -> None:
    """Remove a BLOCK by its id: its GPUs can be booked again. "kubectl gpu admin blocks" lists the ids."""
    server = connection_of(options)
    body = {"reason": reason} if reason else None
    removed = ask(server, "DELETE", f"blocks/{part(block)}", body, dry_run=dry_run)
    message = f"{block} is removed."
    if dry_run and output in FOR_PEOPLE:
        message = f"{block} would be removed: {_gpus(removed)}, {span_of(server, removed)}."
    printed.print_result(removed, output, name=block, message=message)


def _is(block: Row, *, dry_run: bool) -> str:
    if dry_run:
        return "would be"
    return "are" if (block.get("count") or 1) > 1 else "is"


def _gpus(block: Row) -> str:
    """``gpu-a1``, ``2 GPUs of gpu-a1``, or ``2 GPUs of model NVIDIA-A100 of gpu-a1``."""
    node, model, count = str(block["node"]), block.get("model"), block.get("count")
    if not model and not count:
        return node
    amount = wording.counted(count, "GPU") if count else "Every GPU"
    return f"{amount} of model {model} of {node}" if model else f"{amount} of {node}"


def _show_risks(server: ServerConnection, made: Mapping[str, Any], *, dry_run: bool) -> None:
    """Print bookings that cannot be kept: as the answer of a dry run, otherwise as a warning."""
    risks = made.get("at_risk") or ()
    for risk in risks:
        gpus = wording.counted(risk["count"], "GPU")
        when = "then" if dry_run else "now"
        span = " to ".join(printed.local(risk[edge], server.zone) for edge in ("start", "end"))
        click.echo(f"At risk {when}: {risk['id']} of {risk['user']}, {gpus}, {span}.", err=not dry_run)
    if dry_run and not risks:
        click.echo("No booking would be at risk.")
