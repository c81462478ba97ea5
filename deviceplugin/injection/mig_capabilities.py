"""The device nodes that let a container use one MIG device, from the driver's folder in ``/proc``.

``/proc/driver/nvidia/capabilities/gpu<minor>/mig/gi<g>/access``, and ``gi<g>/ci<c>/access`` for the compute
instance, say by ``DeviceFileMinor`` which ``/dev/nvidia-caps/nvidia-cap<n>`` gives access. Without both a
program sees no device, whatever else it has.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = "nvidia-caps"
"""Folder beneath ``/dev`` that has the capabilities' device nodes."""
_MINOR: Final = "DeviceFileMinor:"


def capability_nodes(
    capabilities: Path, minor: int, gpu_instance: int, compute_instance: int
) -> tuple[str, ...] | None:
    """Names of the nodes beneath ``/dev``, for both instances; None where the driver does not report them.

    Args:
        capabilities: the driver's folder.
        minor: of the GPU.
        gpu_instance: its id, as NVML has it.
        compute_instance: its id, as NVML has it.
    """
    instance = capabilities / f"gpu{minor}/mig/gi{gpu_instance}"
    numbers = [_minor_of(path / "access") for path in (instance, instance / f"ci{compute_instance}")]
    if None in numbers:
        return None
    return tuple(f"{FOLDER}/nvidia-cap{number}" for number in numbers)


def _minor_of(access: Path) -> int | None:
    try:
        lines = access.read_text(encoding="ascii").splitlines()
        return next(int(line.removeprefix(_MINOR)) for line in lines if line.startswith(_MINOR))
    except (OSError, ValueError, StopIteration):
        return None
