"""``kubectl gpu status``."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from booking import wording
from booking.cli import output as printed
from booking.cli.completions import known_models, known_nodes
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.errors import CommandError
from booking.cli.output import Column, Format, Row, printing
from booking.cli.server_connection import ServerConnection
from booking.cli.typed_names import NAME
from cluster import names

_HIDDEN = "(somebody)"
_SQUATTER = "squatter"
_USED = frozenset({"booked", "opportunistic"})
"""States of a GPU that a pod uses."""
_GIB = 1024
_STANDINGS = {
    "bookable": "bookable",
    "lent": "lent",
    "idle_though_booked": "idle though booked",
    "in_use": "in use",
}
"""Keys of the answer -> the words of docs/vocabulary.md."""
_OUTGOING = frozenset({"opportunistic", "expired"})
"""Rights by which a pod has a GPU only until a booked pod needs it."""
_COLOURS = {
    "idle though booked": "red",
    "in use": "green",
    "lent": "yellow",
    "unhealthy": "red",
    _SQUATTER: "red",
}


@click.command()
@click.argument("nodes", type=NAME, nargs=-1, shell_complete=known_nodes)
@click.option(
    "--model", type=NAME, shell_complete=known_models, help="Only GPUs of models whose name contains this."
)
@click.option(
    "--next", "is_next", is_flag=True, help="Show who would be evicted next, and why, instead of the GPUs."
)
@printing
@connection_options
def status(nodes: tuple[str, ...], output: Format, **options: Any) -> None:
    """Show the GPUs of these NODES, by default of all: who holds them, until when, and how they are used.

    The state of a GPU that a pod holds is "in use", with the right by which it stays: booked; protected
    (nobody takes it away); granted (by MAIA). Or it is "lent": its pod leaves when a booked pod needs the
    GPU; expired means that its booking is over.

    A GPU that pods share has a line of its own, and one for each of them with the memory of its share; with
    "-o wide" what they have of it together, too.

    One that no pod holds is bookable, or idle though booked, or neither, as in maintenance: then free.

    On a terminal the first lines count the GPUs of each model: bookable (no booking has them now, but pods
    without one may use some), lent (to such pods), idle though booked, and in use (by pods that stay).

    A process that uses a GPU which its pod does not hold has a line of its own, with the state squatter.
    """
    server = connection_of(options)
    answer = _chosen(server.api.get("/now"), nodes, options["model"])
    if options["is_next"]:
        _show_next(answer, output)
        return
    rows = list(_rows(answer))
    printed.show(
        answer,
        rows,
        _columns(server, rows) if output in {"table", "wide"} else (),
        output=output,
        name=lambda row: f"{row['node']}/{row['uuid']}",
        empty="No node reports GPUs.",
        summary=_summary(answer),
    )


def _summary(answer: Row) -> str:
    """How many nodes and GPUs there are, and how many GPUs stand in each way, by model."""
    gpus = [device for node in answer["nodes"] for device in node["devices"]]
    nodes = wording.counted(len(answer["nodes"]), "node")
    first = f"{nodes}, {wording.counted(len(gpus), 'GPU')}"
    if answer.get("models"):
        return "\n".join((f"{first}.", *map(_of_model, answer["models"])))
    standings = [_standing(device) or device["state"] for device in gpus]
    return f"{first}: {printed.counts(standings) or 'none is known'}."


def _of_model(model: Row) -> str:
    """How the GPUs of a model stand: ``A100: 8 GPUs, 3 bookable, 2 lent``."""
    counts = (f"{model[key]} {word}" for key, word in _STANDINGS.items() if model[key] is not None)
    return f"{model['model']}: {wording.counted(model['gpus'], 'GPU')}, {', '.join(counts)}."


def _standing(device: Row) -> str | None:
    """How a GPU stands; a server of an earlier version does not say."""
    return _STANDINGS.get(device.get("standing") or "")


def _colour(row: Row) -> str | None:
    return _COLOURS.get((_state(row) or "").partition(":")[0])


def _chosen(answer: Row, nodes: tuple[str, ...], model: str | None) -> dict[str, Any]:
    """The part of the answer that the user wants to see.

    Raises:
        CommandError: no node or model has that name, which is likely mistyped.
    """
    known = [str(node["node"]) for node in answer["nodes"]]
    missing = [name for name in nodes if name not in known]
    if missing:
        raise CommandError(
            f"No node with GPUs is called {', '.join(map(wording.quoted, missing))}: there are"
            f" {', '.join(known) or 'none'}."
        )
    wanted = names.model_label(model or "").casefold()

    def is_wanted(label: object) -> bool:
        return not wanted or wanted in str(label or "").casefold()

    found = [node for node in answer["nodes"] if not nodes or node["node"] in nodes]
    if wanted:
        models = sorted({str(device["model"]) for node in found for device in node["devices"]})
        if not any(map(is_wanted, models)):
            raise CommandError(
                f"No GPU's model contains {wording.quoted(model or '')}: there are"
                f" {', '.join(models) or 'none'}."
            )
        found = [
            {**node, "devices": [device for device in node["devices"] if is_wanted(device["model"])]}
            for node in found
        ]
        found = [node for node in found if node["devices"]]
    following = [
        one for one in answer["next"] if is_wanted(one["model"]) and (not nodes or one["node"] in nodes)
    ]
    of = [one for one in answer.get("models", ()) if is_wanted(one["model"])]
    return {**answer, "models": [] if nodes else of, "nodes": found, "next": following}


def _rows(answer: Row) -> Iterator[dict[str, Any]]:
    """One row per GPU; one for a node whose GPUs are unknown."""
    for node in answer["nodes"]:
        shared = {"node": node["node"], "node_state": node["state"]}
        if not node["devices"]:
            yield {**shared, "uuid": "-", "index": None, "model": None, "state": None, "why": node["why"]}
        for device in node["devices"]:
            holders = device.get("pods") or [None]
            if device.get("shares"):
                yield {**shared, **device, "why": device.get("why") or node["why"], "pod": None}
            for pod in holders:
                yield {**shared, **device, "why": device.get("why") or node["why"], "pod": pod}
            for squatter in device.get("squatters") or ():
                yield {**shared, **device, **_as_row(squatter)}


def _as_row(squatter: Row) -> dict[str, Any]:
    """The row of a process that runs on a GPU without holding it; it follows the GPU's own row."""
    return {
        "state": _SQUATTER,
        "why": "It runs on this GPU without holding it.",
        "pod": squatter,
        "use": None,
    }


def _process(squatter: Row) -> str:
    """The text in the pod column: the pod's name, or that the process belongs to no pod."""
    process = f"process {squatter['pid']} ({squatter['command']})" if squatter.get("pid") else "a process"
    if not squatter.get("of_pod"):
        return f"{process} of no pod"
    place = "/".join(str(part) for part in (squatter.get("namespace"), squatter.get("name")) if part)
    return f"{place or _HIDDEN}: {process}"


def _columns(server: ServerConnection, rows: Sequence[Row]) -> tuple[Column, ...]:
    zone = server.zone if any((row.get("pod") or {}).get("until") for row in rows) else None
    now = server.clock.now()

    def until(row: Row) -> str | None:
        moment = (row.get("pod") or {}).get("until")
        return printed.short(moment, zone, now) if moment and zone else None

    return (
        Column("NODE", lambda r: r["node"], may_be_cut=True),
        Column("GPU", lambda r: r["index"]),
        Column("MODEL", lambda r: r["model"], may_be_cut=True),
        Column(
            "STATE",
            lambda r: _state(r) if r["node_state"] == "ready" else f"{_state(r)} ({r['node_state']})",
            may_be_cut=True,
            least=len("in use: protected"),
            colour=_colour,
        ),
        Column("USER", lambda r: _of_pod(r, "user"), may_be_cut=True),
        Column("POD", _pod, may_be_cut=True),
        Column("UNTIL", until),
        Column("USE", _use),
        Column("MEMORY", _memory),
        *((Column("SHARE", _share, wide=True),) if any(row.get("shares") for row in rows) else ()),
        Column("TEMPERATURE", lambda r: _measured(r, "temperature_celsius", "C"), wide=True),
        Column("POWER", lambda r: _measured(r, "power_watts", "W"), wide=True),
        Column("UUID", lambda r: r["uuid"], wide=True),
        Column("CLASS", lambda r: (r.get("pod") or {}).get("class"), wide=True),
        Column("BOOKING", lambda r: (r.get("pod") or {}).get("booking"), wide=True),
        Column("WHY", lambda r: r["why"], wide=True),
    )


def _state(row: Row) -> str | None:
    """How a GPU stands, in the words of docs/vocabulary.md, with the right of the pod that has it."""
    state: str | None = row["state"]
    if state == "free" or (state in _USED and _is_shared_gpu(row)):
        return _standing(row) or state
    right = (row.get("pod") or {}).get("class") if state in _USED else None
    if right is None:
        return state
    standing = "lent" if right in _OUTGOING else "in use"
    return standing if right == "opportunistic" else f"{standing}: {right}"


def _is_shared_gpu(row: Row) -> bool:
    """Whether the row is that of a GPU which pods share, not that of one of them."""
    return bool(row.get("shares")) and row.get("pod") is None


def _share(row: Row) -> str | None:
    """What a pod has of a GPU; in the GPU's own row, what all have together: ``24.0 of 79.1 GiB, 3 pods``."""
    shares, part = row.get("shares"), (row.get("pod") or {}).get("share")
    if shares and _is_shared_gpu(row):
        held, offered = shares["memory_mib"] / _GIB, shares["offered_mib"] / _GIB
        return f"{held:.1f} of {offered:.1f} GiB, {wording.counted(shares['pods'], 'pod')}"
    if part is None:
        return None
    return _gib(part["memory_mib"]) + (f", {part['compute_percent']} %" if part["compute_percent"] else "")


def _of_pod(row: Row, key: str) -> str | None:
    pod = row.get("pod")
    if pod is None or pod.get("of_pod") is False:
        return None
    return pod.get(key) or _HIDDEN


def _use(row: Row) -> str | None:
    return None if _is_part(row) else _measured(row, "utilisation_percent", "%")


def _is_part(row: Row) -> bool:
    """Whether the row is that of a pod which has a share: how the GPU is used stands in the GPU's own."""
    return bool((row.get("pod") or {}).get("share"))


def _measured(row: Row, key: str, unit: str) -> str | None:
    value = (row.get("use") or {}).get(key)
    return None if value is None else f"{value} {unit}"


def _memory(row: Row) -> str | None:
    """Memory in use, out of the device's total; a sharer's, out of its share; a squatter's own."""
    pod = row.get("pod") or {}
    used = pod.get("memory_used_mib")
    if row["state"] == _SQUATTER:
        return None if used is None else _gib(used)
    if _is_part(row):
        return f"{'-' if used is None else f'{used / _GIB:.1f}'}/{_gib(pod['share']['memory_mib'])}"
    used = (row.get("use") or {}).get("memory_used_mib")
    whole = row.get("memory_mib")
    if used is None:
        return None
    return f"{used / _GIB:.0f}/{whole / _GIB:.0f} GiB" if whole else _gib(used)


def _gib(mib: int) -> str:
    return f"{mib / _GIB:.1f} GiB"


def _pod(row: Row) -> str | None:
    pod = row.get("pod")
    if pod is None:
        return wording.counted(row["shares"]["pods"], "pod") if _is_shared_gpu(row) else None
    if row["state"] == _SQUATTER:
        return _process(pod)
    return f"{pod['namespace']}/{pod['name']}" if pod.get("name") else _HIDDEN


def _show_next(answer: dict[str, Any], output: Format) -> None:
    columns = (
        Column("MODEL", lambda v: v["model"], may_be_cut=True),
        Column("GPUS", lambda v: v["gpus"]),
        Column("NODE", lambda v: v["node"], may_be_cut=True),
        Column("USER", lambda v: v.get("user") or _HIDDEN, may_be_cut=True),
        Column(
            "POD", lambda v: f"{v['namespace']}/{v['name']}" if v.get("name") else _HIDDEN, may_be_cut=True
        ),
        Column("WHY", lambda v: v["why"], may_be_cut=True),
    )
    printed.show(
        {"next": answer["next"]},
        answer["next"],
        columns,
        output=output,
        name=lambda v: f"pod/{v.get('name') or _HIDDEN}",
        empty="No pod could be evicted for a booking.",
    )
