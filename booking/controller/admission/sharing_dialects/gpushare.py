"""Aliyun's gpushare: ``aliyun.com/gpu-mem`` is memory on one GPU, in a unit that its installation chose.

The limit stays as it is: the quotas and tools of its users count it.
"""

from typing import Final, Literal

from booking.controller.admission.sharing_dialects.containers import (
    MOST_MIB,
    Json,
    ShareRefusedError,
    amounts,
    changed,
    out_of_range,
    with_limits,
)
from cluster import names

Unit = Literal["GiB", "MiB"]
_MIB: Final[dict[Unit, int]] = {"GiB": 1024, "MiB": 1}
_MEMORY: Final = (names.GPU_MEMORY, names.GPU_MEMORY_PERCENTAGE)


def translated(spec: Json, unit: Unit) -> Json:
    """The spec with a slot of a share, and with the memory in MiB.

    Raises:
        ShareRefusedError: an amount is out of range, or memory is named twice.
    """
    return changed(spec, lambda container: _container(container, unit))


def _container(container: Json, unit: Unit) -> Json:
    given = amounts(container, (names.ALIYUN_MEMORY,)).get(names.ALIYUN_MEMORY)
    if given is None:
        return container
    memory, others = given * _MIB[unit], amounts(container, _MEMORY)
    if others and others != {names.GPU_MEMORY: memory}:
        raise ShareRefusedError(
            f"Container {container.get('name', '')} asks for {names.ALIYUN_MEMORY} and {next(iter(others))}:"
            " name the memory of its share once."
        )
    if memory > MOST_MIB:
        raise out_of_range(container, names.ALIYUN_MEMORY, MOST_MIB // _MIB[unit])
    return with_limits(container, {names.SHARED_RESOURCE: 1, names.GPU_MEMORY: memory})
