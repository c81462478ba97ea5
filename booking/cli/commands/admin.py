"""``kubectl gpu admin``: what administrators do, and what they read."""

from typing import Any

import click

from booking.cli.administration.answers import Listed, at_column, show_list, span_columns
from booking.cli.administration.exemptions import exempt, exemptions, revoke
from booking.cli.administration.maintenance import block, blocks, unblock
from booking.cli.administration.orders import clear, cordon, evict, uncordon
from booking.cli.completions import known_subjects
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import Column, Format, printing
from booking.cli.typed_names import NAME


@click.group()
@connection_options
def admin(**_options: Any) -> None:
    """What administrators do: maintenance, exemptions, evictions by name, single GPUs, audit.

    They also book for others ("kubectl gpu book --user") and end bookings of others ("kubectl gpu release"
    and "cancel" with --reason). With --dry-run nothing is changed: it shows what would happen.
    """


@admin.command()
@click.option(
    "--of",
    "subject",
    type=NAME,
    shell_complete=known_subjects,
    help="Only changes of the booking, block or exemption with this id.",
)
@click.option("--by", "actor", type=NAME, help="Only changes by this user.")
@printing
@connection_options
def audit(output: Format, **options: Any) -> None:
    """Show who changed what, and why; newest first."""
    server = connection_of(options)
    which = {name: options[name] for name in ("subject", "actor") if options[name]}
    columns = (
        at_column(server, output),
        Column("WHO", lambda e: e["actor"], may_be_cut=True),
        Column("DID", lambda e: e["action"]),
        Column("TO", lambda e: e["subject"], may_be_cut=True),
        Column("REASON", lambda e: e.get("reason"), may_be_cut=True),
    )
    listing = Listed("audit", empty="Nothing of that was changed yet.", which=which)
    show_list(server, listing, columns, output)


@admin.command(short_help="Show requests that were refused, newest first.")
@printing
@connection_options
def denied(output: Format, **options: Any) -> None:
    """Show requests for GPUs that were refused, newest first, and by which rules."""
    server = connection_of(options)
    columns = (
        at_column(server, output),
        Column("USER", lambda d: d["user"], may_be_cut=True),
        Column("MODEL", lambda d: d["model"], may_be_cut=True),
        Column("GPUS", lambda d: d["count"]),
        *span_columns(server, output),
        Column("RULES", lambda d: ", ".join(d["rules"]), may_be_cut=True),
    )
    show_list(server, Listed("denied", empty="Nothing was refused yet."), columns, output)


for _command in (
    blocks,
    block,
    unblock,
    exemptions,
    exempt,
    revoke,
    evict,
    cordon,
    uncordon,
    clear,
):
    admin.add_command(_command)
