"""How busy the simulated GPUs are: each pod has its own load, which rises and falls."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cluster import names
from cluster.objects.device_usage import DeviceUsage, NodeUsage
from cluster.objects.inventory import Device
from demo.lab.nodes import MODELS
from demo.lab.pods import NOTEBOOK, SHARER

IDLE_WATTS: Final = 62
COLD: Final = 31
"""Degrees Celsius of an idle GPU."""


@dataclass(frozen=True)
class User:
    """A pod that has a GPU, or a share of it."""

    uid: str
    name: str
    memory: int
    """MiB that it has."""


def measured(devices: Iterable[Device], users: Mapping[str, Sequence[User]], now: datetime) -> NodeUsage:
    """What NVML would report of a node.

    Args:
        devices: its GPUs.
        users: uuid -> the pods that have it.
        now: the instant.
    """
    return NodeUsage(
        at=now.replace(microsecond=0),
        devices=tuple(_one(each, users.get(each.uuid, ()), now) for each in devices),
    )


def _one(device: Device, users: Sequence[User], now: datetime) -> DeviceUsage:
    watts = MODELS[device.model.removesuffix(names.CLAIMED_MODEL)].watts
    if not users or not device.is_healthy:
        return DeviceUsage(uuid=device.uuid, utilisation=0, memory=0, temperature=COLD, power=IDLE_WATTS)
    loads = (load(f"{one.uid}/{device.uuid}", now, is_notebook=_is_idle(one)) for one in users)
    percent = min(100, sum(loads))
    memory = {one.uid: one.memory * (25 + _number(one.uid) % 65) // 100 for one in users}
    return DeviceUsage(
        uuid=device.uuid,
        utilisation=percent,
        memory=sum(memory.values()),
        temperature=COLD + percent * 45 // 100,
        power=IDLE_WATTS + (watts - IDLE_WATTS) * percent // 110,
        pods=memory,
    )


def _is_idle(user: User) -> bool:
    """Whether somebody types there, and it idles in between."""
    return user.name.startswith((NOTEBOOK, SHARER))


def load(what: str, now: datetime, *, is_notebook: bool) -> int:
    """Percent at an instant: training is busy with dips, a notebook idles with bursts."""
    phase = _number(what) % 1000 / 1000
    minutes = now.timestamp() / 60
    wave = math.sin(2 * math.pi * (minutes / 17 + phase)) + 0.6 * math.sin(
        2 * math.pi * (minutes / 3 + phase)
    )
    if is_notebook:
        return max(0, min(100, round(4 + 22 * max(0.0, wave - 0.4))))
    return max(0, min(100, round(48 + 38 * phase + 8 * wave)))


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
