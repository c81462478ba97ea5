"""The simulated GPUs of a node: their state for the simulated NVML, and device nodes that containers get."""

from devcluster.errors import ClusterError
from devcluster.fakenvml import FakeNvml, devicenodes
from devcluster.plan import NodePlan


def make(node: NodePlan) -> None:
    """Fill a node's GPU folder; without GPUs it gets a driver that knows none, with real ones nothing."""
    if node.spec.real:
        return
    FakeNvml(node.gpu_folder).create(node.spec.gpus)
    node.device_folder.mkdir()
    try:
        devicenodes.make(node.device_folder, node.spec.gpus)
    except OSError as error:
        raise ClusterError(
            f"Cannot make the device node {error.filename}: {error.strerror}. A cluster needs CAP_MKNOD and "
            "a state folder on a disk that allows device nodes."
        ) from error
