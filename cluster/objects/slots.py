"""Ids under which the kubelet counts shares of a GPU: ``<uuid>::<n>``, as NVIDIA's plugin names replicas.

Nothing else knows the form.
"""

from collections.abc import Iterable
from typing import Final

PER_GPU: Final = 16
"""Slots of a GPU, unless a setting says otherwise: so many containers can share it."""
_BETWEEN: Final = "::"


def slot_id(uuid: str, number: int) -> str:
    """The id of a slot.

    >>> slot_id("GPU-a", 3)
    'GPU-a::3'
    """
    return f"{uuid}{_BETWEEN}{number}"


def slots_of(uuid: str, count: int) -> tuple[str, ...]:
    """The ids of a GPU's first slots.

    >>> slots_of("GPU-a", 2)
    ('GPU-a::0', 'GPU-a::1')
    """
    return tuple(slot_id(uuid, number) for number in range(count))


def is_slot(device_id: str) -> bool:
    """Whether an id of the kubelet's is that of a slot."""
    return _BETWEEN in device_id


def physical(device_id: str) -> str:
    """The UUID of the device behind an id of the kubelet's: a slot's GPU, else the id itself.

    >>> physical("GPU-a::3"), physical("MIG-b")
    ('GPU-a', 'MIG-b')
    """
    return device_id.partition(_BETWEEN)[0]


def in_order(device_ids: Iterable[str]) -> list[str]:
    """The ids by device, slots of one GPU by their numbers.

    >>> in_order({"GPU-b", "GPU-a::10", "GPU-a::2"})
    ['GPU-a::2', 'GPU-a::10', 'GPU-b']
    """
    return sorted(device_ids, key=_place)


def as_a_name(device_id: str) -> str:
    """A slot's id in a form that names of files and of CDI devices can have.

    >>> as_a_name("GPU-a::3")
    'GPU-a-3'
    """
    return device_id.replace(_BETWEEN, "-")


def _place(device_id: str) -> tuple[str, int, str]:
    uuid, _, number = device_id.partition(_BETWEEN)
    return uuid, int(number) if number.isdecimal() else -1, number
