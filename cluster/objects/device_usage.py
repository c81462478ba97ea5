"""How the GPUs of a node are used, on its agent's Lease; and who uses one without holding it, or too much.

The annotation ``names.USE`` of the Lease is written with a renewal that is due anyway. It holds JSON::

    {"at": "2026-11-27T16:00:00Z",
     "devices": [{"uuid": "GPU-...", "utilisation": 87, "memory": 40213, "temperature": 61, "power": 288,
                  "pods": {"<pod uid>": 40100}}],
     "squatters": [{"device": "GPU-...", "pid": 4711, "command": "python3", "memory": 2048}],
     "overUsers": [{"device": "GPU-...", "uid": "<pod uid>", "used": 12288, "limit": 8192}]}

Of a share that several pods have together by a claim each of them is named, with ``"pods": 2``. Utilisation
is in percent, memory in MiB in use, temperature in degrees Celsius, power in watts. Missing values are
unknown. It is for people: no decision depends on it, except that pods which use more than their shares are
evicted where an administrator wants that.
"""

from typing import Final

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Instant, Partial, Versioned, ready

OVER_USED: Final = '"overUsers":['
"""Stands in the text of a report that names a pod which uses too much."""
MOST_SQUATTERS: Final = 20
"""Number of entries that are reported, those with the most memory; ``more`` counts the others."""


class UseError(ValueError):
    """An annotation that cannot be read: the use of the GPUs is then unknown."""


class DeviceUsage(Partial, frozen=True):
    """One GPU, or one MIG device."""

    uuid: str
    utilisation: int | None = None
    memory: int | None = None
    temperature: int | None = None
    power: int | None = None
    pods: dict[str, int] | None = None
    """Pod uid -> MiB that its processes use there, of pods that hold the device."""
    real: str | None = None
    """UUID of the GPU itself, where ``uuid`` is a number and the kubelet has chosen (``inventory``)."""


class Squatter(Partial, frozen=True):
    """A process on a device that its pod does not hold, or a process of no pod."""

    device: str
    pid: int
    """In the node's own PID namespace."""
    command: str = ""
    """What the process calls itself."""
    memory: int | None = None
    uid: str | None = None
    """The uid of its pod; None for a process of no pod."""
    namespace: str | None = None
    name: str | None = None
    user: str | None = None


class OverUser(Partial, frozen=True):
    """A pod that uses more memory of a shared GPU than its share. Memory in MiB."""

    device: str
    uid: str
    used: int
    limit: int
    pods: int = 1
    """How many pods have the share together, by one claim; each of them is named, with what all use."""


@ready
class NodeUsage(Versioned, frozen=True, kw_only=True):
    """All devices, measured at one instant."""

    at: Instant
    devices: tuple[DeviceUsage, ...] = ()
    squatters: tuple[Squatter, ...] = ()
    more: int = 0
    """Number of squatters that are not listed."""
    over_users: tuple[OverUser, ...] = ()
    """Those that use most too much first."""


def encode_use(use: NodeUsage) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(use).decode()


def decode_use(text: str) -> NodeUsage:
    """The use in an annotation's text.

    Raises:
        UseError: the text cannot be read.
    """
    try:
        return msgspec.json.decode(text, type=NodeUsage)
    except UNREADABLE as error:
        raise UseError(f"The annotation {names.USE} cannot be read: {error}.") from error
