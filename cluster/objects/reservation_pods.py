"""Reservation pods: how a GPU of another device plugin becomes one that pods share.

Where the kubelet chooses the GPUs, nobody can have a part of one. So a pod of ours asks for a whole one, and
does nothing with it: its numbered GPU is then *open* for shares, and pods that share it see it by its UUID.
A reservation pod is written by the controller alone. What it is follows from its annotations:

=====================  ===================================================================================
``names.RESERVES``     the numbered GPU that it reserves, from its creation; the pod's name follows from it
``names.OPENED``       UUID of the GPU that its kubelet gave it: from then on, shares are given
``names.CLOSING``      since when no more are given: it is deleted soon
=====================  ===================================================================================
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from cluster import names
from cluster.objects.meta import Instant
from cluster.objects.pods import Pod, is_live

_LONGEST: Final = 253
"""Characters of a pod's name."""
_DIGEST: Final = 16
_PREFIX: Final = f"{names.VISIBLE}."


class Reservation(msgspec.Struct, frozen=True):
    """What a reservation pod says."""

    number: str
    """The numbered GPU that it reserves."""
    opened: str | None = None
    """UUID of the GPU behind it; None while that is not known, or when no more shares are given of it."""


def reservation_of(pod: Pod) -> Reservation | None:
    """What a pod reserves; None for a pod that is no reservation pod."""
    number = pod.metadata.annotation(names.RESERVES)
    if not number:
        return None
    is_open = is_live(pod) and not pod.metadata.annotation(names.CLOSING)
    return Reservation(number, (pod.metadata.annotation(names.OPENED) or None) if is_open else None)


def closing_since(pod: Pod) -> datetime | None:
    """Since when a reservation pod gives no more shares; None if it does."""
    text = pod.metadata.annotation(names.CLOSING)
    if not text:
        return None
    try:
        since: datetime = msgspec.convert(text, Instant, strict=False)
    except msgspec.ValidationError:
        return pod.metadata.creation_timestamp  # only we write it; unreadable is long ago
    return since


def reservation_name(number: str) -> str:
    """The name of the pod that reserves a numbered GPU: there is never a second one.

    >>> reservation_name("node-a-3")
    'gpu-share-node-a-3'
    """
    name = names.RESERVATION_PREFIX + number
    if len(name) <= _LONGEST:
        return name
    return names.RESERVATION_PREFIX + hashlib.sha256(number.encode()).hexdigest()


def visible_key(container: str) -> str:
    """The annotation from which a container of a pod with shares reads its GPUs, where they are numbered.

    >>> visible_key("main")
    'state.gpu-booking.io/visible.main'
    """
    room = names.LONGEST_KEY - len(_PREFIX.partition("/")[2])
    if len(container) > room:
        digest = hashlib.sha256(container.encode()).hexdigest()[:_DIGEST]
        container = f"{container[: room - _DIGEST - 1]}.{digest}"
    return _PREFIX + container


def reads_its_gpus(pod: Pod, containers: Iterable[str]) -> bool:
    """Whether each of these containers reads its GPUs from an annotation, which admission has announced."""
    annotations = pod.metadata.annotations or {}
    return all(visible_key(container) in annotations for container in containers)


def visible_to(pod: Pod, container: str) -> tuple[str, ...]:
    """UUIDs of the GPUs that a container of a bound pod was told to see."""
    return _listed(pod.metadata.annotation(visible_key(container)))


def visible_gpus(pod: Pod) -> frozenset[str]:
    """UUIDs of the GPUs that the containers of a bound pod were told to see."""
    notes = (pod.metadata.annotations or {}).items()
    return frozenset(uuid for key, text in notes if key.startswith(_PREFIX) for uuid in _listed(text))


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split(",")))
