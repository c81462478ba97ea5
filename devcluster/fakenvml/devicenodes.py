"""Device nodes of simulated GPUs.

There is no driver behind them (opening one fails), but they have the numbers of NVIDIA's, so that a container
shows which GPUs it was given.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from devcluster.fakenvml.specs import GpuSpec

_NVIDIA, _UVM = 195, 511
_CONTROL_MINOR = 255


def make(folder: Path, gpus: Sequence[GpuSpec]) -> None:
    """Make the device nodes that are missing; a node without GPUs gets none.

    Raises:
        OSError: they may not be made, or not on this disk; ``filename`` names the first that failed.
    """
    devices = {f"nvidia{gpu.minor}": (_NVIDIA, gpu.minor) for gpu in gpus}
    if devices:
        devices |= {
            "nvidiactl": (_NVIDIA, _CONTROL_MINOR),
            "nvidia-uvm": (_UVM, 0),
            "nvidia-uvm-tools": (_UVM, 1),
        }
    for name, (major, minor) in devices.items():
        path = folder / name
        if not path.is_char_device():
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            path.chmod(0o666)  # whatever the umask says
