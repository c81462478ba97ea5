"""``kubectl gpu admin exemptions``, ``exempt`` and ``revoke``: other limits for a while."""

from typing import Any

import click
import msgspec

from booking.cli import bookings
from booking.cli import output as printed
from booking.cli.administration.answers import Listed, ask, print_created, show_list, span_columns, span_of
from booking.cli.api import part
from booking.cli.completions import known_exemptions, known_models
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import FOR_PEOPLE, Column, Format, Row, printing, trying
from booking.cli.time_parsing import TIME, instant_of, start_of
from booking.cli.typed_names import NAME


@click.command()
@printing
@connection_options
def exemptions(output: Format, **options: Any) -> None:
    """Show who is exempt from which limits, and until when."""
    server = connection_of(options)
    columns = (
        Column("ID", lambda e: e["id"]),
        Column("USER", lambda e: e["user"], may_be_cut=True),
        Column("LIMITS", _limits, may_be_cut=True),
        Column("MODEL", lambda e: e.get("model") or "all", may_be_cut=True),
        *span_columns(server, output),
        Column("REASON", lambda e: e["reason"], may_be_cut=True),
        Column("BY", lambda e: e.get("created_by"), wide=True),
    )
    show_list(server, Listed("exemptions", empty="Nobody is exempt from anything."), columns, output)


@click.command()
@click.argument("user", type=NAME)
@click.argument("limits", nargs=-1, required=True, metavar="LIMIT=VALUE...")
@click.option("--from", "start", metavar=TIME, help="When it starts to hold; now by default.")
@click.option("--to", "end", required=True, metavar=TIME, help="When it ends.")
@click.option("--reason", required=True, help="Why; it is written to the audit.")
@click.option(
    "--model",
    type=NAME,
    shell_complete=known_models,
    help="Only for GPUs of this model; by default all.",
)
@trying
@printing
@connection_options
def exempt(user: str, limits: tuple[str, ...], output: Format, *, dry_run: bool, **options: Any) -> None:
    """Give a USER other limits for a while. "kubectl gpu policy show" names the limits.

    For example: kubectl gpu admin exempt alice cooldown=P0D max_planned=3 --to fri --reason thesis

    "kubectl gpu book --help" says how to write a TIME.
    """
    server = connection_of(options)
    now = server.clock.now()
    body: dict[str, Any] = {
        "user": user,
        "limits": dict(_pair(each) for each in limits),
        "start": bookings.parsed(start_of, options["start"] or "now", now, server.zone).isoformat(),
        "end": bookings.parsed(instant_of, options["end"], now, server.zone).isoformat(),
        "reason": options["reason"],
    }
    if options["model"]:
        body["model"] = bookings.model_of(server, options["model"])
    made = ask(server, "POST", "exemptions", body, dry_run=dry_run)
    message = ""
    if output in FOR_PEOPLE:
        has = "would have" if dry_run else "has"
        message = f"{made['user']} {has} {_terms(made)} {span_of(server, made)}"
    print_created(made, output, message, dry_run=dry_run)


@click.command(short_help="End an EXEMPTION.")
@click.argument("exemption", type=NAME, shell_complete=known_exemptions)
@click.option("--reason", help="Why; it is written to the audit.")
@trying
@printing
@connection_options
def revoke(exemption: str, output: Format, *, reason: str | None, dry_run: bool, **options: Any) -> None:
    """End an EXEMPTION by its id: the policy holds again. "kubectl gpu admin exemptions" lists the ids."""
    server = connection_of(options)
    body = {"reason": reason} if reason else None
    removed = ask(server, "DELETE", f"exemptions/{part(exemption)}", body, dry_run=dry_run)
    message = f"{exemption} has ended."
    if dry_run and output in FOR_PEOPLE:
        of_whom = f"{removed['user']} has {_terms(removed)}"
        message = f"{exemption} would end: {of_whom} {span_of(server, removed)}."
    printed.print_result(removed, output, name=exemption, message=message)


def _terms(exemption: Row) -> str:
    """``longest=P30D``, or ``longest=P30D for NVIDIA-A100``."""
    model = exemption.get("model")
    return f"{_limits(exemption)} for {model}" if model else _limits(exemption)


def _limits(exemption: Row) -> str:
    return ", ".join(f"{name}={_input_text(value)}" for name, value in sorted(exemption["limits"].items()))


def _input_text(value: object) -> str:
    """A limit's value as a user would type it: text unquoted, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _pair(text: str) -> tuple[str, str | int | bool | None]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise click.UsageError(f"{text!r} is not LIMIT=VALUE: write for example cooldown=P0D.")
    try:
        return name, msgspec.json.decode(value, type=int | bool | None)
    except msgspec.MsgspecError:
        # A length, or a word: the server reports what it should have been.
        return name, value
