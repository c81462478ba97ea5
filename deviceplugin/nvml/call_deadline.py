"""A deadline for every call about one GPU: a GPU that hangs the driver never keeps the others waiting.

``DeadlineNvml`` wraps an ``Nvml`` and records which GPU each call is about. A call cannot be interrupted.
When one is overdue, its thread is abandoned, calls about its GPU fail, and another thread continues with the
other GPUs (``hung_driver``). When the overdue call finally returns, its thread ends and its GPU is called
again.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from cluster.process.clock import Clock
from deviceplugin.nvml.interface import (
    EventStream,
    GpuFacts,
    GpuUsage,
    MigFacts,
    Nvml,
    NvmlError,
    RemappedRows,
)

DEADLINE_SECONDS: Final = 10.0
HUNG: Final = -1
"""Code of the error for a GPU that hangs; NVML has no such code."""

T = TypeVar("T")


class AbandonedError(Exception):
    """This thread was abandoned and another one continues: it must end."""


@dataclass(frozen=True, slots=True)
class _Call:
    gpu: str
    since: float


class DeadlineNvml:
    """An ``Nvml`` for one thread at a time: the first that opens it after the last one was abandoned."""

    def __init__(self, nvml: Nvml, clock: Clock, deadline: float = DEADLINE_SECONDS) -> None:
        """Args: deadline: seconds for a call about one GPU."""
        self._nvml = nvml
        self._clock = clock
        self._deadline = deadline
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._call: _Call | None = None
        self._hung: set[str] = set()
        self._uuids: dict[int, str] = {}

    def abandon_overdue(self) -> bool:
        """Abandon the thread whose call is overdue; returns whether there was one. For another thread."""
        with self._lock:
            call = self._call
            if call is None or self._clock.monotonic() - call.since < self._deadline:
                return False
            self._hung.add(call.gpu)
            self._owner = self._call = None
        return True

    # --- Nvml -------------------------------------------------------------------------------------------

    def open(self) -> None:
        """See ``Nvml``. The first thread that opens it after another was abandoned becomes the owner."""
        with self._lock:
            if self._owner is None:
                self._owner = threading.get_ident()
        self._mine()
        self._nvml.open()

    def close(self) -> None:
        """See ``Nvml``. While a call hangs, NVML stays open: it must not be shut down during that call."""
        with self._lock:
            if self._owner != threading.get_ident() or self._hung:
                return
        self._nvml.close()

    def driver_version(self) -> str:
        """See ``Nvml``."""
        self._mine()
        return self._nvml.driver_version()

    def cuda_version(self) -> tuple[int, int] | None:
        """See ``Nvml``."""
        self._mine()
        return self._nvml.cuda_version()

    def count(self) -> int:
        """See ``Nvml``."""
        self._mine()
        return self._nvml.count()

    def uuid(self, index: int) -> str:
        """See ``Nvml``."""
        found = self._about(self._uuids.get(index, f"number {index}"), lambda: self._nvml.uuid(index))
        self._uuids[index] = found
        return found

    def facts(self, uuid: str) -> GpuFacts:
        """See ``Nvml``."""
        return self._about(uuid, lambda: self._nvml.facts(uuid))

    def links(self, uuid: str) -> Sequence[str]:
        """See ``Nvml``."""
        return self._about(uuid, lambda: self._nvml.links(uuid))

    def topology_level(self, uuid: str, other: str) -> int | None:
        """See ``Nvml``."""
        return self._about(uuid, lambda: self._nvml.topology_level(uuid, other))

    def mig(self, uuid: str) -> Sequence[MigFacts] | None:
        """See ``Nvml``."""
        return self._about(uuid, lambda: self._nvml.mig(uuid))

    def recovery_action(self, uuid: str) -> int:
        """See ``Nvml``."""
        return self._about(uuid, lambda: self._nvml.recovery_action(uuid))

    def rows(self, uuid: str) -> RemappedRows:
        """See ``Nvml``."""
        return self._about(uuid, lambda: self._nvml.rows(uuid))

    def usage(self, uuid: str, parts: Sequence[str]) -> GpuUsage:
        """See ``Nvml``."""
        return self._about(uuid, lambda: self._nvml.usage(uuid, parts))

    def touch(self, uuid: str) -> None:
        """See ``Nvml``."""
        self._about(uuid, lambda: self._nvml.touch(uuid))

    def events(self, uuids: Sequence[str]) -> EventStream:
        """See ``Nvml``."""
        self._mine()
        return self._nvml.events(uuids)

    # --- inside -----------------------------------------------------------------------------------------

    def _mine(self) -> None:
        if self._owner != threading.get_ident():
            raise AbandonedError

    def _about(self, gpu: str, call: Callable[[], T]) -> T:
        with self._lock:
            self._mine()
            if gpu in self._hung:
                raise NvmlError(self._message, code=HUNG, call="", device=gpu)
            mine = self._call = _Call(gpu, self._clock.monotonic())
        try:
            return call()
        finally:
            self._returned(mine)

    def _returned(self, call: _Call) -> None:
        with self._lock:
            if self._owner == threading.get_ident():
                self._call = None
                return
            self._hung.discard(call.gpu)
        raise AbandonedError

    @property
    def _message(self) -> str:
        return f"The driver hangs: it has not answered for this GPU within {self._deadline:g} s"
