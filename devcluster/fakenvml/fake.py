"""``FakeNvml``: a folder with one simulated node's GPUs, and the verbs that change them at run time.

It keeps nothing in memory: any process that opens the same folder sees and changes the same GPUs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cluster import names
from devcluster.fakenvml import capabilities, statefile
from devcluster.fakenvml.build import library
from devcluster.fakenvml.specs import WHOLE_GPU, GpuSpec, MigSpec

STATE_VARIABLE: Final = "FAKE_NVML_STATE"
LIBRARY_VARIABLE: Final = names.setting("nvml_library")
"""The node agent's setting ``nvml_library``."""
SYS_VARIABLE: Final = names.setting("sys_root")
"""The node agent's setting ``sys_root``."""
CAPABILITIES_VARIABLE: Final = names.setting("mig_capabilities")
"""The node agent's setting ``mig_capabilities``."""

MACHINE: Final = "Simulated Machine"
"""The name of the node's model, as the firmware reports it."""

_UNBOUND, _BOUND = 1, 2
_XID, _MIG_CHANGE, _UNAVAILABLE, _RECOVERY = 0x8, 0x100, 0x4000, 0x8000


@dataclass(frozen=True)
class RunningProcess:
    """A process on a GPU. Memory in bytes; kind c = compute, m = MPS client, g = graphics."""

    pid: int
    memory: int
    gi: int = WHOLE_GPU
    ci: int = WHOLE_GPU
    kind: Literal["c", "m", "g"] = "c"


class FakeNvml:
    """The simulated GPUs of one node. GPUs are named by number or UUID."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "nvml"
        self.sys_root = folder / "sys"

    def create(self, gpus: Sequence[GpuSpec]) -> None:
        """Start over with these GPUs: a loaded driver, no faults, no events."""
        self.folder.mkdir(parents=True, exist_ok=True)
        Path(f"{self.state}.events").write_bytes(b"")
        Path(f"{self.state}.calls").unlink(missing_ok=True)
        with statefile.editing(self.state) as state:
            state.clear()
            state.update(statefile.DRIVER)
            for index, spec in enumerate(gpus):
                statefile.put_gpu(state, index, spec)
            for index, spec in enumerate(gpus):
                statefile.put_links(state, index, spec)
        for spec in gpus:
            self._write_sysfs(spec)
        (self.sys_root / "module/nvidia").mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """The variables that a process needs to see these GPUs (it compiles the library if need be)."""
        return {
            STATE_VARIABLE: str(self.state),
            LIBRARY_VARIABLE: str(library()),
            SYS_VARIABLE: str(self.sys_root),
            CAPABILITIES_VARIABLE: str(self.folder / capabilities.PROC),
        }

    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of the GPUs, by number."""
        state = statefile.read(self.state)
        return tuple(state[f"gpu.{index}.uuid"] for index in statefile.indices(state))

    def stored(self) -> dict[str, str]:
        """The whole state, which ``store`` can restore: GPUs, MIG devices, faults."""
        return statefile.read(self.state)

    def store(self, stored: Mapping[str, str]) -> None:
        """Restore a state from ``stored``; if nothing differs, nothing is written and no program notices."""
        if self.stored() != stored:
            with statefile.editing(self.state) as state:
                state.clear()
                state.update(stored)

    # --- events ---------------------------------------------------------------------------------------

    def xid(self, gpu: int | str, number: int, *, gi: int = WHOLE_GPU, ci: int = WHOLE_GPU) -> None:
        """Send the event of an XID error, of the whole GPU or of one MIG instance."""
        self.event(gpu, _XID, number, gi=gi, ci=ci)

    def unavailable(self, gpu: int | str) -> None:
        """Send the event that the GPU is unavailable."""
        self.event(gpu, _UNAVAILABLE)

    def recovery_action(self, gpu: int | str, action: int) -> None:
        """Set the action that the driver asks for (0: none, -1: unknown to the card), and send its event."""
        self._set(gpu, "recovery", action)
        self.event(gpu, _RECOVERY, max(action, 0))

    def rows(self, gpu: int | str, *, pending: bool = False, failed: bool = False) -> None:
        """Set whether memory rows wait for a reset to be replaced, and whether replacing some has failed."""
        self._set(gpu, "rows_pending", int(pending))
        self._set(gpu, "rows_failed", int(failed))

    def event(
        self, gpu: int | str, kind: int, data: int = 0, *, gi: int = WHOLE_GPU, ci: int = WHOLE_GPU
    ) -> None:
        """Send any event; ``kind`` is the bit of its type."""
        uuid = self.uuids()[gpu] if isinstance(gpu, int) else gpu
        self._append(f"{uuid} {kind} {data} {gi} {ci}")

    def _append(self, line: str) -> None:
        handle = os.open(f"{self.state}.events", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)

    # --- GPUs -----------------------------------------------------------------------------------------

    def lose(self, gpu: int | str) -> None:
        """Let the GPU fall off the bus: every call for it answers that it is lost."""
        self._set(gpu, "lost", 1)

    def recover(self, gpu: int | str) -> None:
        """Let a lost GPU answer again."""
        self._set(gpu, "lost", 0)

    def processes(self, gpu: int | str, *running: RunningProcess) -> None:
        """Replace the processes on the GPU."""
        with statefile.editing(self.state) as state:
            prefix = f"gpu.{statefile.index_of(state, gpu)}.process."
            statefile.drop(state, prefix)
            for number, one in enumerate(running):
                state[f"{prefix}{number}"] = f"{one.pid} {one.memory} {one.gi} {one.ci} {one.kind}"

    def used(self, gpu: int | str, *, percent: int, degrees: int, watts: int) -> None:
        """Set how busy the GPU is: utilisation (half as much of its memory), temperature and power."""
        self._set(gpu, "gpu_util", percent)
        self._set(gpu, "memory_util", percent // 2)
        self._set(gpu, "temperature", degrees)
        self._set(gpu, "power", watts * 1000)

    def memory_used(self, gpu: int | str, used: int) -> None:
        """Set how many bytes programs hold on the GPU."""
        self._set(gpu, "used", used)

    def mig(self, gpu: int | str, devices: Sequence[MigSpec], *, with_event: bool = True) -> None:
        """Partition the GPU into these MIG devices (none: MIG off), with or without an event about it.

        The driver's files and device nodes that give access to them are created first.
        """
        state = statefile.read(self.state)
        minor = int(state[f"gpu.{statefile.index_of(state, gpu)}.minor"])
        capabilities.lay_out(self.folder, minor, devices)
        with statefile.editing(self.state) as state:
            statefile.put_migs(state, statefile.index_of(state, gpu), tuple(devices))
        if with_event:
            self.event(gpu, _MIG_CHANGE)

    def bound(self) -> None:
        """Send the event that a GPU was bound to the driver."""
        self._append(f"SYSTEM {_BOUND} 0 0 0")

    def unbound(self) -> None:
        """Send the event that a GPU was unbound from the driver."""
        self._append(f"SYSTEM {_UNBOUND} 0 0 0")

    def add_gpu(self, spec: GpuSpec) -> None:
        """Add a GPU after the last one: processes that initialise NVML afterwards see it."""
        with statefile.editing(self.state) as state:
            index = max(statefile.indices(state), default=-1) + 1
            statefile.put_gpu(state, index, spec)
            statefile.put_links(state, index, spec)
        self._write_sysfs(spec)

    def remove_gpu(self, gpu: int | str) -> None:
        """Remove the GPU; to processes that initialised NVML before, it is lost. The others move up."""
        with statefile.editing(self.state) as state:
            gone = statefile.index_of(state, gpu)
            statefile.drop(state, f"gpu.{gone}.")
            moved = {_moved_up(key, gone): value for key, value in state.items()}
            state.clear()
            state.update(moved)

    # --- faults ---------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Show the driver's kernel module in sysfs as loaded again."""
        module = self.sys_root / "module/nvidia"
        fresh = module.with_name("nvidia.fresh")
        fresh.mkdir(parents=True)
        if module.exists():
            module.rmdir()
        fresh.rename(module)

    def init_error(self, code: int) -> None:
        """Set what nvmlInit answers from now on: 0 success, 9 driver not loaded, 17 blocked by the system."""
        with statefile.editing(self.state) as state:
            state["init"] = str(code)

    def error(self, call: str, gpu: int | str | None, code: int) -> None:
        """Let a call fail with an NVML error code, for one GPU or (None) for all; 0 ends it."""
        self._rule(call, "error", gpu, str(code))

    def field_error(self, gpu: int | str | None, code: int) -> None:
        """Let every field of nvmlDeviceGetFieldValues fail, while the call succeeds; 0 ends it."""
        self._rule("nvmlDeviceGetFieldValues", "field", gpu, str(code))

    def delay(self, call: str, seconds: float, gpu: int | str | None = None) -> None:
        """Let a call take this many seconds."""
        self._rule(call, "delay", gpu, str(seconds))

    def hang(self, call: str, gpu: int | str | None = None) -> None:
        """Let a call block until it is released."""
        self._rule(call, "hang", gpu, "1")

    def release(self, call: str) -> None:
        """End every fault of a call: hanging ones return."""
        with statefile.editing(self.state) as state:
            statefile.drop(state, f"call.{call}.")

    def clear(self) -> None:
        """End every fault: injected ones, lost GPUs, recovery actions, faults of rows, a missing driver."""
        with statefile.editing(self.state) as state:
            statefile.drop(state, "call.")
            state["init"] = "0"
            for index in statefile.indices(state):
                state[f"gpu.{index}.lost"] = "0"
                state[f"gpu.{index}.recovery"] = "0"
                state[f"gpu.{index}.rows_pending"] = state[f"gpu.{index}.rows_failed"] = "0"

    def log_calls(self) -> None:
        """Log every call from now on, for ``calls``."""
        with statefile.editing(self.state) as state:
            state["log"] = "1"

    def calls(self) -> tuple[tuple[int, str, str], ...]:
        """The calls of all processes since ``log_calls``: pid, function, GPU (``-`` for none)."""
        path = Path(f"{self.state}.calls")
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return tuple((int(pid), function, uuid) for pid, function, uuid in (line.split() for line in lines))

    # --- inside ---------------------------------------------------------------------------------------

    def _set(self, gpu: int | str, key: str, value: int) -> None:
        with statefile.editing(self.state) as state:
            state[f"gpu.{statefile.index_of(state, gpu)}.{key}"] = str(value)

    def _rule(self, call: str, what: str, gpu: int | str | None, value: str) -> None:
        with statefile.editing(self.state) as state:
            scope = "" if gpu is None else f"@{state[f'gpu.{statefile.index_of(state, gpu)}.uuid']}"
            state[f"call.{call}.{what}{scope}"] = value

    def _write_sysfs(self, spec: GpuSpec) -> None:
        folder = self.sys_root / "bus/pci/devices" / spec.pci[4:].lower()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "numa_node").write_text(f"{spec.numa}\n", encoding="utf-8")
        (folder / "class").write_text("0x030200\n", encoding="utf-8")
        machine = self.sys_root / "class/dmi/id/product_name"
        machine.parent.mkdir(parents=True, exist_ok=True)
        machine.write_text(f"{MACHINE}\n", encoding="utf-8")


def _moved_up(key: str, gone: int) -> str:
    """The key of a GPU behind the one that is gone, with its number lowered by one."""
    parts = key.split(".")
    if parts[0] != "gpu" or int(parts[1]) < gone:
        return key
    return ".".join(["gpu", str(int(parts[1]) - 1), *parts[2:]])
