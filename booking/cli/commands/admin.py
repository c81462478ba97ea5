"""``kubectl gpu admin``: what administrators do."""

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from booking.cli import bookings
from booking.cli import output as printed
from booking.cli.api import part
from booking.cli.completions import known_models, known_nodes
from booking.cli.output import PEOPLES, Column, Format, Row, printing
from booking.cli.server_connection import ServerConnection, reach_of, reaching
from booking.cli.time_parsing import TIME, instant_of


@click.group(short_help="What administrators do.")
def admin() -> None:
    """What administrators do: maintenance, exemptions, evictions by name, single GPUs, audit."""


@admin.command()
@printing
@reaching
def blocks(output: Format, **options: Any) -> None:
    """Show maintenance that runs or is planned."""
    reach = reach_of(options)
    columns = (
        Column("ID", lambda b: b["id"]),
        Column("NODE", lambda b: b["node"]),
        Column("MODEL", lambda b: b.get("model") or "all"),
        Column("GPUS", lambda b: b.get("count") or "all"),
        *_span_columns(reach, output),
        Column("REASON", lambda b: b["reason"]),
        Column("BY", lambda b: b.get("created_by"), wide=True),
    )
    _list(reach, "blocks", columns, output, empty="No maintenance is planned.")


@admin.command(short_help="Block the GPUs of a NODE for maintenance.")
@click.argument("node", shell_complete=known_nodes)
@click.option("--from", "start", metavar=TIME, help="When the maintenance starts; now by default.")
@click.option("--to", "end", required=True, metavar=TIME, help="When it ends.")
@click.option("--reason", required=True, help="Why; users see it.")
@click.option("--model", shell_complete=known_models, help="Only GPUs of this model; by default all.")
@click.option("--gpus", "-g", type=int, help="Only so many of them; by default all.")
@printing
@reaching
def block(node: str, output: Format, **options: Any) -> None:
    """Block the GPUs of a NODE for maintenance: nobody can book them for that time.

    Bookings that cannot be kept are not cancelled; they are at risk, and are listed.

    "kubectl gpu book --help" says how to write a TIME.
    """
    reach = reach_of(options)
    now = reach.clock.now()
    body = {
        "node": node,
        "start": bookings.meant(instant_of, options["start"] or "now", now, reach.zone).isoformat(),
        "end": bookings.meant(instant_of, options["end"], now, reach.zone).isoformat(),
        "reason": options["reason"],
    }
    if options["model"]:
        body["model"] = bookings.model_of(reach, options["model"])
    if options["gpus"] is not None:
        body["count"] = options["gpus"]
    _make(reach, "blocks", body, output, message=f"{node} is blocked")


@admin.command(short_help="Remove a BLOCK: its GPUs can be booked again.")
@click.argument("block")
@click.option("--reason", help="Why; it is written to the audit.")
@printing
@reaching
def unblock(block: str, output: Format, **options: Any) -> None:
    """Remove a BLOCK by its id: its GPUs can be booked again. "kubectl gpu admin blocks" lists the ids."""
    _remove(reach_of(options), "blocks", block, output, reason=options["reason"])


@admin.command()
@printing
@reaching
def exemptions(output: Format, **options: Any) -> None:
    """Show who is exempt from which limits, and until when."""
    reach = reach_of(options)
    columns = (
        Column("ID", lambda e: e["id"]),
        Column("USER", lambda e: e["user"]),
        Column("LIMITS", _limits),
        Column("MODEL", lambda e: e.get("model") or "all"),
        *_span_columns(reach, output),
        Column("REASON", lambda e: e["reason"]),
        Column("BY", lambda e: e.get("created_by"), wide=True),
    )
    _list(reach, "exemptions", columns, output, empty="Nobody is exempt from anything.")


@admin.command()
@click.argument("user")
@click.argument("limits", nargs=-1, required=True, metavar="LIMIT=VALUE...")
@click.option("--from", "start", metavar=TIME, help="When it starts to hold; now by default.")
@click.option("--to", "end", required=True, metavar=TIME, help="When it ends.")
@click.option("--reason", required=True, help="Why; it is written to the audit.")
@click.option("--model", shell_complete=known_models, help="Only for GPUs of this model; by default all.")
@printing
@reaching
def exempt(user: str, limits: tuple[str, ...], output: Format, **options: Any) -> None:
    """Give a USER other limits for a while. "kubectl gpu policy show" names the limits.

    For example: kubectl gpu admin exempt alice cooldown=P0D max_planned=3 --to fri --reason thesis
    "kubectl gpu book --help" says how to write a TIME.
    """
    reach = reach_of(options)
    now = reach.clock.now()
    body: dict[str, Any] = {
        "user": user,
        "limits": dict(_pair(each) for each in limits),
        "start": bookings.meant(instant_of, options["start"] or "now", now, reach.zone).isoformat(),
        "end": bookings.meant(instant_of, options["end"], now, reach.zone).isoformat(),
        "reason": options["reason"],
    }
    if options["model"]:
        body["model"] = bookings.model_of(reach, options["model"])
    _make(reach, "exemptions", body, output, message=f"{user} is exempt")


@admin.command(short_help="End an EXEMPTION.")
@click.argument("exemption")
@click.option("--reason", help="Why; it is written to the audit.")
@printing
@reaching
def revoke(exemption: str, output: Format, **options: Any) -> None:
    """End an EXEMPTION by its id: the policy holds again. "kubectl gpu admin exemptions" lists the ids."""
    _remove(reach_of(options), "exemptions", exemption, output, reason=options["reason"])


@admin.command(short_help="Evict a POD from its GPUs, booked or not.")
@click.argument("pod")
@click.option("--reason", required=True, help="Why; its owner is told.")
@printing
@reaching
def evict(pod: str, reason: str, output: Format, **options: Any) -> None:
    """Evict a POD from its GPUs, booked or not.

    A bare pod comes back as its annotations say, by default without a GPU; a controller replaces its pod.
    """
    reach = reach_of(options)
    body = {"namespace": reach.namespace, "pod": pod.removeprefix("pod/"), "reason": reason}
    made = reach.api.ask("POST", "/admin/evictions", body)
    place = f"{body['namespace']}/{body['pod']}"
    printed.tell(made, output, name=place, message=f"{place} is being evicted.")


@admin.command(short_help="Give a GPU of a NODE to no new pods.")
@click.argument("node", shell_complete=known_nodes)
@click.argument("gpu")
@click.option("--reason", required=True, help="Why; users see it.")
@printing
@reaching
def cordon(node: str, gpu: str, reason: str, output: Format, **options: Any) -> None:
    """Give a GPU of a NODE, named by its number or UUID, to no new pods; whoever has it keeps it."""
    _order_gpu(reach_of(options), (node, gpu), "cordon", output, reason=reason, message="gets no new pods")


@admin.command(short_help="Let new pods have a cordoned GPU of a NODE again.")
@click.argument("node", shell_complete=known_nodes)
@click.argument("gpu")
@click.option("--reason", default="back in use", help="Why.", show_default=True)
@printing
@reaching
def uncordon(node: str, gpu: str, reason: str, output: Format, **options: Any) -> None:
    """Let new pods have a cordoned GPU of a NODE, named by its number or UUID, again."""
    _order_gpu(
        reach_of(options), (node, gpu), "uncordon", output, reason=reason, message="is not cordoned any more"
    )


@admin.command(short_help="Report that a GPU of a NODE is repaired.")
@click.argument("node", shell_complete=known_nodes)
@click.argument("gpu")
@click.option("--reason", required=True, help="What was done; it is written to the audit.")
@printing
@reaching
def clear(node: str, gpu: str, reason: str, output: Format, **options: Any) -> None:
    """Report that a GPU of a NODE, named by its number or UUID, is repaired: it is probed again."""
    _order_gpu(reach_of(options), (node, gpu), "clear", output, reason=reason, message="is probed again")


@admin.command()
@click.option("--of", "subject", help="Only changes of the booking, block or exemption with this id.")
@click.option("--by", "actor", help="Only changes by this user.")
@printing
@reaching
def audit(output: Format, **options: Any) -> None:
    """Show who changed what, and why; newest first."""
    reach = reach_of(options)
    which = {name: options[name] for name in ("subject", "actor") if options[name]}
    columns = (
        _at(reach, output),
        Column("WHO", lambda e: e["actor"]),
        Column("DID", lambda e: e["action"]),
        Column("TO", lambda e: e["subject"]),
        Column("REASON", lambda e: e.get("reason")),
    )
    _list(reach, "audit", columns, output, which=which, empty="Nothing of that was changed yet.")


@admin.command(short_help="Show requests that were refused, newest first.")
@printing
@reaching
def denied(output: Format, **options: Any) -> None:
    """Show requests for GPUs that were refused, newest first, and by which rules."""
    reach = reach_of(options)
    columns = (
        _at(reach, output),
        Column("USER", lambda d: d["user"]),
        Column("MODEL", lambda d: d["model"]),
        Column("GPUS", lambda d: d["count"]),
        *_span_columns(reach, output),
        Column("RULES", lambda d: ", ".join(d["rules"])),
    )
    _list(reach, "denied", columns, output, empty="Nothing was refused yet.")


def _list(
    reach: ServerConnection,
    what: str,
    columns: tuple[Column, ...],
    output: Format,
    *,
    empty: str,
    which: Mapping[str, object] | None = None,
) -> None:
    found = reach.api.pages(f"/admin/{what}", what, which)
    printed.show({what: found}, found, columns, output=output, name=_name_of, empty=empty)


def _name_of(row: Row) -> str:
    """Blocks and exemptions have an id, entries of audit and demand a number."""
    return str(row["id"] if "id" in row else row["number"])


def _make(reach: ServerConnection, what: str, body: dict[str, Any], output: Format, *, message: str) -> None:
    made = reach.api.ask("POST", f"/admin/{what}", body)
    printed.tell(made, output, name=str(made["id"]), message=f"{message}: {made['id']}.")
    if output in PEOPLES:
        for risk in made.get("at_risk") or ():
            gpus = "1 GPU" if risk["count"] == 1 else f"{risk['count']} GPUs"
            span = " to ".join(printed.local(risk[edge], reach.zone) for edge in ("start", "end"))
            click.echo(f"At risk now: {risk['id']} of {risk['user']}, {gpus}, {span}.", err=True)


def _order_gpu(
    reach: ServerConnection, place: tuple[str, str], order: str, output: Format, *, reason: str, message: str
) -> None:
    node, gpu = place
    body = {"node": node, "gpu": gpu, "order": order, "reason": reason}
    ordered = reach.api.ask("POST", "/admin/gpu-orders", body)
    printed.tell(ordered, output, name=ordered["gpu"], message=f"{ordered['gpu']} of {node} {message}.")


def _remove(
    reach: ServerConnection, what: str, identifier: str, output: Format, *, reason: str | None
) -> None:
    body = {"reason": reason} if reason else None
    removed = reach.api.ask("DELETE", f"/admin/{what}/{part(identifier)}", body)
    printed.tell(removed, output, name=identifier, message=f"{identifier} is taken back.")


def _span_columns(reach: ServerConnection, output: Format) -> tuple[Column, ...]:
    if output not in PEOPLES:
        return ()
    zone = reach.zone
    return (
        Column(f"START ({zone.key})", lambda b: printed.local(b["start"], zone) if b.get("start") else None),
        Column("END", lambda b: printed.local(b["end"], zone) if b.get("end") else None),
    )


def _at(reach: ServerConnection, output: Format) -> Column:
    if output not in PEOPLES:
        return Column("AT", lambda e: e["at"])
    zone = reach.zone
    return Column(f"AT ({zone.key})", lambda e: printed.local(e["at"], zone))


def _limits(exemption: Row) -> str:
    return ", ".join(f"{name}={value}" for name, value in exemption["limits"].items())


def _pair(text: str) -> tuple[str, str | int | bool | None]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise click.UsageError(f"{text!r} is no LIMIT=VALUE: write for example cooldown=P0D.")
    try:
        return name, msgspec.json.decode(value, type=int | bool | None)
    except msgspec.MsgspecError:
        # A length, a word: the server says what it should have been.
        return name, value
