"""The simulated GPUs of a node: their state for the simulated NVML, and device nodes that containers get.

Behind the device nodes is no driver (opening one fails), but they have the numbers of NVIDIA's, so that a
container shows which GPUs it was given.
"""

import os
import stat
from pathlib import Path

from devcluster.failure import ClusterError
from devcluster.fakenvml import FakeNvml
from devcluster.plan import NodePlan

_NVIDIA, _UVM = 195, 511
_CONTROL_MINOR = 255


def make(node: NodePlan) -> None:
    """Fill a node's GPU folder; a node without GPUs gets a driver that knows none."""
    FakeNvml(node.gpu_folder).create(node.spec.gpus)
    devices = {f"nvidia{gpu.minor}": (_NVIDIA, gpu.minor) for gpu in node.spec.gpus}
    if devices:
        devices |= {
            "nvidiactl": (_NVIDIA, _CONTROL_MINOR),
            "nvidia-uvm": (_UVM, 0),
            "nvidia-uvm-tools": (_UVM, 1),
        }
    node.device_folder.mkdir()
    for name, (major, minor) in devices.items():
        _make_device(node.device_folder / name, major, minor)


def _make_device(path: Path, major: int, minor: int) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    except OSError as error:
        raise ClusterError(
            f"Cannot make the device node {path}: {error.strerror}. A cluster needs CAP_MKNOD and a state "
            "folder on a disk that allows device nodes."
        ) from error
    path.chmod(0o666)  # whatever the umask says
