"""The device nodes that let a container use one MIG device, from the driver's folder in ``/proc``.

``DeviceFileMinor`` in ``/proc/driver/nvidia/capabilities/gpu<minor>/mig/gi<g>/access``, and in
``gi<g>/ci<c>/access`` for the compute instance, is the number of the ``/dev/nvidia-caps/nvidia-cap<n>`` that
gives access. Without both nodes a program sees no device, whatever else it has.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = "nvidia-caps"
"""Folder beneath ``/dev`` that has the capabilities' device nodes."""
_MINOR: Final = "DeviceFileMinor:"


def capability_nodes(
    capabilities: Path, minor: int, gpu_instance: int, compute_instance: int
) -> tuple[str, ...] | None:
    """Names of the nodes beneath ``/dev``, for both instances; None if the driver does not report them.

    Args:
        capabilities: the driver's folder.
        minor: the GPU's minor number.
        gpu_instance: NVML's id of the GPU instance.
        compute_instance: NVML's id of the compute instance.
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
