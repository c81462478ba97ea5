"""NVIDIA: ``nvidia.com/gpu.shared`` names replicas of GPUs without an amount: each is the same percentage."""

from booking.controller.admission.sharing_dialects.containers import (
    HAMI_AMOUNTS,
    Json,
    amounts,
    changed,
    gpus,
    with_limits,
)
from cluster import names


def translated(spec: Json, percentage: int) -> Json:
    """The spec with this percentage of the memory wherever a share has no amount.

    Raises:
        ShareRefusedError: an amount is out of range.
    """

    def container(one: Json) -> Json:
        if names.SHARED_RESOURCE not in gpus(one):
            return one
        given = amounts(one, HAMI_AMOUNTS).keys()
        if given & {names.GPU_MEMORY, names.GPU_MEMORY_PERCENTAGE}:
            return one
        return with_limits(one, {names.GPU_MEMORY_PERCENTAGE: percentage})

    return changed(spec, container)
