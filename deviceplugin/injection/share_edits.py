"""What a slot's CDI specification adds to its container: variables and mounts, by the mode of the pod. Pure.

In time slices nothing limits a container but a library that the administrator may have (``Hook``): then it is
mounted and told the amounts in its own words. Under MPS the driver limits each process, by variables that it
reads itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from cluster import mps_names
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from cluster.objects.share_request import requested_mode
from deviceplugin.injection.share_environment import Environment, amounts_of, share_environment, told

MEMORY: Final = "{memory}"
CORES: Final = "{cores}"
_MOUNT_OPTIONS: Final = ("nosuid", "nodev", "rbind", "rprivate")


class Hook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A library of the administrator's that limits containers in time slices."""

    mounts: dict[str, str] = {}
    """Path in the container -> the host's."""
    environment: dict[str, str] = {}
    """Variable -> value, in which ``{memory}`` is MiB of each GPU and ``{cores}`` percent of its compute. One
    about an amount that the container has not named is left out."""


@dataclass(frozen=True, slots=True)
class ShareMount:
    """A path of the host in a container."""

    host: str
    path: str
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class ShareEdits:
    """What is added to a container."""

    environment: Environment
    mounts: tuple[ShareMount, ...] = ()


def is_of_mps(pod: Pod | None) -> bool:
    """Whether a pod with shares has them under MPS."""
    return pod is not None and requested_mode(pod) == "mps"


def share_edits(
    pod: Pod,
    containers: Sequence[str],
    devices: Iterable[Device],
    *,
    pipe: Path | None = None,
    hook: Hook | None = None,
) -> ShareEdits:
    """What the containers get that have exactly these devices.

    Args:
        pod: their pod, which has been admitted.
        containers: their names.
        devices: those that they share; one under MPS.
        pipe: where clients of the GPU's control daemon find it, at the same path on the host.
        hook: a library for containers in time slices.

    Raises:
        QuantityError: an amount is not a whole number (the API server refuses those).
    """
    shared = tuple(devices)
    accounted = share_environment(pod, containers, shared)
    memory, cores = amounts_of(pod, containers, shared)
    least = min(memory, default=0)
    if is_of_mps(pod):
        found = accounted | _of_mps(pipe, least, cores)
        return ShareEdits(found, (ShareMount(str(pipe), str(pipe), is_writable=True),) if pipe else ())
    return _in_turns(accounted, least, cores, hook)


def claimed_edits(shares: Mapping[str, int], hook: Hook | None = None) -> ShareEdits:
    """What the containers get that have shares by one request of a claim: in time slices.

    Args:
        shares: UUID -> MiB.
        hook: a library for containers in time slices.
    """
    memory = [shares[uuid] for uuid in sorted(shares)]
    return _in_turns(told(sorted(shares), memory, 0), min(memory), 0, hook)


def container_edits(edits: ShareEdits) -> dict[str, object]:
    """The same in the words of a CDI specification. Equal edits give equal values."""
    changes: dict[str, object] = {
        "env": [f"{name}={value}" for name, value in sorted(edits.environment.items())]
    }
    if edits.mounts:
        changes["mounts"] = [
            {
                "hostPath": one.host,
                "containerPath": one.path,
                "options": ["rw" if one.is_writable else "ro", *_MOUNT_OPTIONS],
            }
            for one in edits.mounts
        ]
    return changes


def _in_turns(accounted: Environment, memory: int, cores: int, hook: Hook | None) -> ShareEdits:
    if hook is None:
        return ShareEdits(accounted)
    mounts = tuple(ShareMount(host, path) for path, host in sorted(hook.mounts.items()))
    return ShareEdits(_of_hook(hook, memory, cores) | accounted, mounts)


def _of_mps(pipe: Path | None, memory: int, cores: int) -> Environment:
    """The GPU of the daemon is the first one that its clients see."""
    found = {} if pipe is None else {mps_names.PIPE_VARIABLE: str(pipe)}
    if memory:
        found[mps_names.MEMORY_VARIABLE] = f"0={memory}M"
    if cores:
        found[mps_names.THREADS_VARIABLE] = str(cores)
    return found


def _of_hook(hook: Hook, memory: int, cores: int) -> Environment:
    amounts = {MEMORY: memory, CORES: cores}
    found: Environment = {}
    for variable, text in hook.environment.items():
        if all(amount for name, amount in amounts.items() if name in text):
            found[variable] = text.replace(MEMORY, str(memory)).replace(CORES, str(cores))
    return found
