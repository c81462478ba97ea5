"""An administrator's default: what a plain GPU means in a namespace, ``25%`` or ``8Gi`` of one."""

from typing import Final

from booking.controller.admission.sharing_dialects.containers import (
    HAMI_AMOUNTS,
    MOST_MIB,
    Json,
    amounts,
    changed,
    gpus,
    with_limits,
)
from cluster import names
from cluster.objects.device_selector import MIB, mebibytes
from cluster.objects.quantity import QuantityError, parse_amount

_PERCENT: Final = 100


def amount_in(text: str) -> dict[str, int] | None:
    """The default as limits; None if it cannot be read."""
    text = text.strip()
    if text.endswith("%"):
        number = text.removesuffix("%").strip()
        is_good = number.isascii() and number.isdecimal() and len(number) <= len(str(_PERCENT))
        return (
            {names.GPU_MEMORY_PERCENTAGE: int(number)} if is_good and 1 <= int(number) <= _PERCENT else None
        )
    try:
        memory = mebibytes(text) if text.isdecimal() else int(parse_amount(text) / MIB)
    except QuantityError:
        return None
    return {names.GPU_MEMORY: memory} if 1 <= memory <= MOST_MIB else None


def translated(spec: Json, default: dict[str, int]) -> Json:
    """The spec with shares of this size in place of the plain GPUs of containers.

    Raises:
        ShareRefusedError: an amount is out of range.
    """

    def container(one: Json) -> Json:
        found = gpus(one)
        if found.keys() != {names.GPU_RESOURCE} or amounts(one, HAMI_AMOUNTS):
            return one
        limits = {names.SHARED_RESOURCE: found[names.GPU_RESOURCE], **default}
        return with_limits(one, limits, without=(names.GPU_RESOURCE,))

    return changed(spec, container)
