"""Ids under which the kubelet counts shares of a GPU: ``<uuid>::<n>``, as NVIDIA's plugin names replicas.

Nothing else knows the form.
"""

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


def is_slot(device_id: str) -> bool:
    """Whether an id of the kubelet's is that of a slot."""
    return _BETWEEN in device_id


def physical(device_id: str) -> str:
    """The UUID of the device behind an id of the kubelet's: a slot's GPU, else the id itself.

    >>> physical("GPU-a::3"), physical("MIG-b")
    ('GPU-a', 'MIG-b')
    """
    return device_id.partition(_BETWEEN)[0]
