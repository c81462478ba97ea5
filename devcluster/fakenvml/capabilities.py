"""What gives access to simulated MIG devices: files in ``proc``, and device nodes in ``dev`` if that exists.

As with the driver, ``/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access`` is for a GPU instance and
``ci0/access`` beneath it for a compute instance; each has the number of ``/dev/nvidia-caps/nvidia-cap<n>``.
"""

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devcluster.fakenvml.specs import MigSpec

FOLDER: Final = "nvidia-caps"
PROC: Final = "proc/driver/nvidia/capabilities"
_MAJOR: Final = 239
_PER_GPU, _PER_INSTANCE, _FIRST = 256, 9, 3
"""How many numbers a GPU has, and a GPU instance; the first of all: 1 and 2 are for MIG's administration."""


def number(minor: int, gi: int, ci: int | None = None) -> int:
    """Minor number of the device node for a GPU instance, or for a compute instance of it."""
    return _FIRST + minor * _PER_GPU + gi * _PER_INSTANCE + (0 if ci is None else 1 + ci)


def lay_out(folder: Path, minor: int, devices: Sequence[MigSpec]) -> None:
    """Make the files and device nodes of a GPU's MIG devices; files of earlier ones are removed.

    Raises:
        OSError: there is a folder for device nodes, but no right to make them in it.
    """
    mig = folder / PROC / f"gpu{minor}/mig"
    shutil.rmtree(mig, ignore_errors=True)
    for device in devices:
        instance = mig / f"gi{device.gi}"
        _put(folder, instance, number(minor, device.gi))
        _put(folder, instance / f"ci{device.ci}", number(minor, device.gi, device.ci))


def _put(folder: Path, place: Path, minor: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "access").write_text(
        f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n", encoding="ascii"
    )
    if not (folder / "dev").is_dir():
        return
    path = folder / "dev" / FOLDER / f"nvidia-cap{minor}"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        os.mknod(path, stat.S_IFCHR | 0o444, os.makedev(_MAJOR, minor))
        path.chmod(0o444)
