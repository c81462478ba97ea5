"""Every call of the NVML interface, and what a card with a driver answers or refuses. It only reads.

What is refused, and by which number, was read from an H200 with driver 580.159.04.
"""

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from deviceplugin.nvml.interface import Nvml, NvmlError

INVALID_ARGUMENT: Final = 2
NOT_FOUND: Final = 6
UNINITIALIZED: Final = 1
NOBODY: Final = "GPU-00000000-0000-0000-0000-000000000000"

OF_THE_DRIVER: Final[Mapping[str, Callable[[Nvml], object]]] = {
    "driver_version": lambda nvml: nvml.driver_version(),
    "cuda_version": lambda nvml: nvml.cuda_version(),
    "count": lambda nvml: nvml.count(),
    "uuid": lambda nvml: nvml.uuid(0),
}
OF_A_GPU: Final[Mapping[str, Callable[[Nvml, str], object]]] = {
    "facts": lambda nvml, uuid: nvml.facts(uuid),
    "links": lambda nvml, uuid: nvml.links(uuid),
    "topology_level": lambda nvml, uuid: nvml.topology_level(uuid, uuid),
    "mig": lambda nvml, uuid: nvml.mig(uuid),
    "recovery_action": lambda nvml, uuid: nvml.recovery_action(uuid),
    "rows": lambda nvml, uuid: nvml.rows(uuid),
    "usage": lambda nvml, uuid: nvml.usage(uuid, ()),
    "touch": lambda nvml, uuid: nvml.touch(uuid),
    "events": lambda nvml, uuid: nvml.events([uuid]).close(),
}
LIFE: Final = frozenset({"open", "close"})


def every_call_is_answered(nvml: Nvml) -> None:
    """Even where the card does not support a call: the interface has a value for that."""
    for ask in OF_THE_DRIVER.values():
        ask(nvml)
    uuids = [nvml.uuid(index) for index in range(nvml.count())]
    for uuid in uuids:
        for ask in OF_A_GPU.values():
            ask(nvml, uuid)
        for other in uuids:
            nvml.topology_level(uuid, other)
        facts, usage = nvml.facts(uuid), nvml.usage(uuid, ())
        assert facts.name
        assert usage.temperature is None or 0 < usage.temperature < 120
        assert usage.power is None or 0 < usage.power < 3000
        if usage.memory_used is not None and usage.memory_total is not None:
            assert usage.memory_used <= usage.memory_total


def calls_about_missing_gpus_are_refused(nvml: Nvml) -> None:
    """With the interface's own error, which has NVML's number and the call's name."""
    with pytest.raises(NvmlError) as refused:
        nvml.uuid(nvml.count())
    assert refused.value.code == INVALID_ARGUMENT
    for name, ask in OF_A_GPU.items():
        if name == "events":
            continue
        with pytest.raises(NvmlError) as refused:
            ask(nvml, NOBODY)
        assert refused.value.code == NOT_FOUND, name
        assert refused.value.call


def no_call_is_answered_after_close(nvml: Nvml) -> None:
    """This closes the interface."""
    known = nvml.uuid(0)
    nvml.close()
    for ask in (*OF_THE_DRIVER.values(), lambda port: port.touch(known)):
        with pytest.raises(NvmlError) as refused:
            ask(nvml)
        assert refused.value.code == UNINITIALIZED
