"""KAI: annotations say which part of a GPU one container gets, and of how many GPUs.

They are read when the pod is created, and never again: what is written into them later changes nothing.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from booking.controller.admission.sharing_dialects.containers import (
    MOST_MIB,
    Json,
    ShareRefusedError,
    changed,
    containers,
    gpus,
    with_limits,
)
from booking.wording import quoted
from cluster import dialect_names, names

_FRACTION: Final = re.compile(r"([0-9]{1,9}(\.[0-9]{0,20})?|\.[0-9]{1,20})(e-[0-9]{1,3})?", re.IGNORECASE)
_COUNT: Final = re.compile(r"[1-9][0-9]{0,9}")
_PERCENT: Final = 100


def is_spoken(annotations: Mapping[str, str]) -> bool:
    """Whether the pod asks for a share in these words."""
    return any(key in annotations for key in dialect_names.KAI_REQUESTS)


def translated(spec: Json, annotations: Mapping[str, str]) -> Json:
    """The spec with the share as limits of the container that the annotations name, or of the first.

    Raises:
        ShareRefusedError: an annotation cannot be read, or the pod requests GPUs in other words, too.
    """
    if not is_spoken(annotations):
        return spec
    if any(gpus(one) for one in containers(spec)):
        key = next(key for key in dialect_names.KAI_REQUESTS if key in annotations)
        raise ShareRefusedError(
            f"The pod has the annotation {key}, and a container that requests GPUs itself: a pod has"
            " shares or whole GPUs, so leave one of the two out."
        )
    limits = {
        names.SHARED_RESOURCE: _number(annotations, dialect_names.KAI_DEVICES, "1"),
        **_memory(annotations),
    }
    wanted = annotations.get(dialect_names.KAI_CONTAINER) or next(iter(_apps(spec)), "")
    if wanted not in {one.get("name") for one in containers(spec)}:
        raise ShareRefusedError(
            f"The annotation {dialect_names.KAI_CONTAINER} names {quoted(wanted)}, which is no container of"
            " the pod."
        )
    return changed(spec, lambda one: with_limits(one, limits) if one.get("name") == wanted else one)


def _memory(annotations: Mapping[str, str]) -> dict[str, int]:
    if all(key in annotations for key in dialect_names.KAI_REQUESTS):
        raise ShareRefusedError(
            f"The pod has the annotations {dialect_names.KAI_FRACTION} and {dialect_names.KAI_MEMORY}: name"
            " the memory of its share once."
        )
    if dialect_names.KAI_MEMORY in annotations:
        return {names.GPU_MEMORY: _number(annotations, dialect_names.KAI_MEMORY, "")}
    text = annotations[dialect_names.KAI_FRACTION].strip()
    percent = Decimal(text) * _PERCENT if _FRACTION.fullmatch(text) else Decimal(0)
    if not 1 <= percent <= _PERCENT:
        raise ShareRefusedError(
            f"The annotation {dialect_names.KAI_FRACTION} is {quoted(text)}, which must be a number from"
            " 0.01 to 1."
        )
    return {names.GPU_MEMORY_PERCENTAGE: int(percent)}


def _number(annotations: Mapping[str, str], key: str, default: str) -> int:
    text = annotations.get(key, default).strip()
    if not _COUNT.fullmatch(text) or int(text) > MOST_MIB:
        raise ShareRefusedError(
            f"The annotation {key} is {quoted(text)}, which must be a whole number from 1 to {MOST_MIB}."
        )
    return int(text)


def _apps(spec: Json) -> list[str]:
    return [one.get("name", "") for one in spec.get("containers") or ()]
