"""The state file of the simulated NVML as a dictionary: read, edit under a lock, replace atomically.

``fakenvml.h`` documents the keys. Several processes may edit the same file.
"""

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.fakenvml.specs import MIB, GpuSpec, MigSpec

State = dict[str, str]

_GPU_UUID = re.compile(r"gpu\.(\d+)\.uuid")

DRIVER = {"driver": "580.159.04", "nvml": "13.580.159.04", "cuda": "13000", "init": "0"}


@contextmanager
def editing(path: Path) -> Iterator[State]:
    """The state, to be changed in place; it is written when the block ends without an exception."""
    with Path(f"{path}.lock").open("a", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        state = read(path)
        yield state
        write(path, state)


def read(path: Path) -> State:
    """Key to value; empty where there is no file yet."""
    if not path.exists():
        return {}
    return dict(line.split("=", 1) for line in path.read_text(encoding="utf-8").splitlines() if "=" in line)


def write(path: Path, state: State) -> None:
    """Replace the file in one step: a reader sees the old state or the new one."""
    text = "".join(f"{key}={value}\n" for key, value in state.items())
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o644)
    Path(name).replace(path)


def indices(state: State) -> tuple[int, ...]:
    """The numbers of the GPUs, ascending."""
    return tuple(sorted(int(found[1]) for key in state if (found := _GPU_UUID.fullmatch(key))))


def index_of(state: State, gpu: int | str) -> int:
    """The number of a GPU given by number or UUID.

    Raises:
        KeyError: there is no such GPU.
    """
    for index in indices(state):
        if gpu in (index, state[f"gpu.{index}.uuid"]):
            return index
    raise KeyError(f"The simulated node has no GPU {gpu!r}.")


def drop(state: State, prefix: str) -> None:
    """Forget every key that starts with the prefix."""
    for key in [key for key in state if key.startswith(prefix)]:
        del state[key]


def put_gpu(state: State, index: int, spec: GpuSpec) -> None:
    """Write a GPU under a number, without its NVLinks (``put_links``)."""
    profile = spec.profile
    values: dict[str, object] = {
        "uuid": spec.uuid,
        "name": profile.name,
        "serial": spec.serial,
        "pci": spec.pci,
        "place": spec.place or f"{spec.numa}/{index}/{index}",
        "pci_device": profile.pci_device,
        "pci_subsystem": profile.pci_subsystem,
        "minor": spec.minor,
        "brand": profile.brand,
        "architecture": profile.architecture,
        "compute": f"{profile.compute[0]}.{profile.compute[1]}",
        "total": profile.memory_mib * MIB,
        "used": spec.used,
        "reserved": profile.reserved,
        "recovery": spec.recovery,
        "events": spec.events,
        "temperature": 36,
        "power": 80984,
        "mig_mode": 0 if profile.mig else -1,
        "mig_max": 7,
    }
    drop(state, f"gpu.{index}.")
    state.update({f"gpu.{index}.{key}": str(value) for key, value in values.items()})


def put_links(state: State, index: int, spec: GpuSpec) -> None:
    """Write the NVLinks of a GPU: the address of the peer for each link. Peers must be there already."""
    drop(state, f"gpu.{index}.link.")
    ends = [
        state[f"gpu.{index_of(state, peer)}.pci"] for peer, count in spec.links.items() for _ in range(count)
    ]
    state.update({f"gpu.{index}.link.{number}": end for number, end in enumerate(ends)})


def put_migs(state: State, index: int, devices: tuple[MigSpec, ...]) -> None:
    """Replace the MIG devices of a GPU; none switches MIG mode off."""
    drop(state, f"gpu.{index}.mig.")
    state[f"gpu.{index}.mig_mode"] = "1" if devices else "0"
    for number, device in enumerate(devices):
        shape = device.shape
        values: dict[str, object] = {
            "uuid": device.uuid,
            "profile": device.profile,
            "profile_id": shape.id,
            "gi": device.gi,
            "ci": device.ci,
            "memory_mib": shape.memory_mib,
            "slices": shape.slices,
            "ci_slices": device.compute_slices,
            "start": device.start,
            "size": device.size,
            "processors": shape.processors,
            "copy_engines": shape.copy_engines,
            "decoders": shape.decoders,
        }
        state.update({f"gpu.{index}.mig.{number}.{key}": str(value) for key, value in values.items()})
