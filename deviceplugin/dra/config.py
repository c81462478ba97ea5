"""What a claim asks of its devices besides having them (``config[].opaque``): given, or refused. Pure.

The forms are NVIDIA's (``resource.nvidia.com/v1beta1``). Containers that have one GPU take turns on it
without anybody's doing, so time slices are given as they are; nothing here sets how long they last, nor runs
an MPS daemon for a claim. What is not given is refused with a sentence, never ignored.
"""

from collections.abc import Mapping
from typing import Any, Final

from cluster import names
from cluster.objects.claims import AllocatedDevices, Opaque

KINDS: Final = frozenset({"GpuConfig", "MigDeviceConfig"})
TURNS: Final = "TimeSlicing"
USUAL: Final = "Default"
"""The length of time slices that a GPU has if nobody sets another one."""

Parameters = Mapping[str, Any]


def config_problem(devices: AllocatedDevices, driver: str) -> str | None:
    """Why the configuration of a claim cannot be given, without a full stop; None if it can."""
    for one in devices.config:
        if one.opaque and one.opaque.driver == driver and (problem := _problem(one.opaque)):
            return problem
    return None


def _problem(opaque: Opaque) -> str | None:
    parameters = _said(opaque.parameters)
    kind = parameters.pop("kind", None)
    parameters.pop("apiVersion", None)
    sharing = parameters.pop("sharing", None)
    if kind not in KINDS:
        return f"The driver {opaque.driver} here knows no configuration of kind {kind}"
    if parameters:
        return f"The driver {opaque.driver} here gives no {min(parameters)} of a {kind}"
    return None if sharing is None else _sharing_problem(sharing, str(kind))


def _sharing_problem(sharing: object, kind: str) -> str | None:
    if not isinstance(sharing, Mapping):
        return f"The sharing of a {kind} is no object"
    fields = _said(sharing)
    strategy, turns = fields.pop("strategy", None), fields.pop("timeSlicingConfig", None)
    if strategy != TURNS:
        instead = f"; shares under MPS are asked for by {names.SHARED_RESOURCE}" if strategy == "MPS" else ""
        return f"Sharing by the strategy {strategy} is not given by claims, {TURNS} is{instead}"
    if fields:
        return f"Sharing by {TURNS} has no {min(fields)}"
    lengths = _said(turns) if isinstance(turns, Mapping) else {"interval": turns}
    interval = lengths.pop("interval", None)
    if lengths:
        return f"A timeSlicingConfig has no {min(lengths)}"
    if interval not in (None, USUAL):
        return f"The interval {interval} of time slices is not set here: leave it out, or write {USUAL}"
    return None


def _said(fields: Parameters | None) -> dict[str, Any]:
    """The fields that say anything."""
    return {key: value for key, value in (fields or {}).items() if value}
