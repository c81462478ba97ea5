"""HAMi: ``nvidia.com/gpu`` with an amount is a share of each of so many GPUs; an amount alone means one GPU.

Models are named by parts of their names there, and must be whole names here: those that are known by now.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from booking.controller.admission.sharing_dialects.containers import (
    HAMI_AMOUNTS,
    Json,
    amounts,
    changed,
    count,
    named,
    names_gpus,
    with_limits,
)
from cluster import dialect_names, names

_MEMORY: Final = (names.GPU_MEMORY, names.GPU_MEMORY_PERCENTAGE)
_TYPES: Final = {dialect_names.HAMI_TYPE: names.MODEL, dialect_names.HAMI_NOT_TYPE: names.NOT_MODEL}
_UUIDS: Final = {dialect_names.HAMI_UUID: names.UUID, dialect_names.HAMI_NOT_UUID: names.NOT_UUID}
KEYS: Final = (*_TYPES, *_UUIDS)
"""Annotations about models and GPUs."""


def translated(spec: Json) -> Json:
    """The spec with slots of shares and amounts in place of GPUs and amounts.

    Compute without memory means all the memory, so a whole GPU.

    Raises:
        ShareRefusedError: an amount is out of range.
    """
    return changed(spec, _container)


def _container(container: Json) -> Json:
    if dialect_names.HAMI_PRIORITY in named(container):
        container = with_limits(container, {}, without=(dialect_names.HAMI_PRIORITY,))
    if count(container, names.SHARED_RESOURCE):
        return container  # 0 of them is what a LimitRange's slots are turned into
    given, gpus = amounts(container, HAMI_AMOUNTS), count(container, names.GPU_RESOURCE)
    if not given or (names_gpus(container) and not gpus):
        return container
    if not any(memory in given for memory in _MEMORY):
        return with_limits(container, {names.GPU_RESOURCE: gpus or 1}, without=(names.GPU_CORES,))
    return with_limits(container, {names.SHARED_RESOURCE: gpus or 1}, without=(names.GPU_RESOURCE,))


def selectors(annotations: Mapping[str, str], models: Iterable[str]) -> dict[str, str]:
    """Our annotations that say what HAMi's say about models and GPUs; none that the pod has already.

    Args:
        annotations: the pod's.
        models: those that the cluster has, in label form.
    """
    known = sorted(models)
    types = {ours: _models(annotations[key], known) for key, ours in _TYPES.items() if annotations.get(key)}
    uuids = {ours: annotations[key] for key, ours in _UUIDS.items() if annotations.get(key)}
    return {ours: value for ours, value in {**types, **uuids}.items() if ours not in annotations}


def _models(text: str, known: Iterable[str]) -> str:
    """The known models whose names contain one of the parts; a part of none stays as it is."""
    found: dict[str, None] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        label = names.model_label(part).casefold()
        matching = [model for model in known if label in model.casefold()]
        found |= dict.fromkeys(matching or [part])
    return ",".join(found)
