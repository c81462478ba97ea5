"""Whether GPUs that another plugin gives out can be opened for shares on this node, and why not.

A container with a share is shown its GPU by the variable ``NVIDIA_VISIBLE_DEVICES`` alone, which only
NVIDIA's container runtime reads. Whether that runs on this node is seen from inside: the agent's own
container has the variable, so it has device nodes of GPUs, which nobody else gives it, where the variable has
an effect. It must run under the same RuntimeClass as pods with shares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster import names

GPU_NODES: Final = "nvidia[0-9]*"
NO_EFFECT: Final = (
    f"The variable {names.VISIBLE_DEVICES_VARIABLE} has no effect on this node: the agent's own container,"
    " which has it, sees no GPU. The container runtime gives GPUs by CDI alone, or NVIDIA's runtime is"
    " neither the default nor that of the agent's RuntimeClass (sharing.reservationPods.runtimeClassName)."
)
OTHER_SLOTS: Final = (
    f"The Node has {names.SHARED_RESOURCE} of its own, so its kubelet would refuse pods with shares of ours:"
    " its device plugin renames replicas, or the agent gave out the GPUs before; then restart the kubelet,"
    " and remove the resource from the Node's status."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How GPUs are offered to pods that share them."""

    slots: int
    """How many containers can share a GPU."""
    reserve: int
    """MiB of each GPU that are not given in shares, besides the driver's own."""
    own_dev: Path
    """The folder of device nodes of the agent's own container."""

    def problem(self, allocatable: Mapping[str, int]) -> str | None:
        """Why no GPU can be opened here, for people; None if it can.

        Args:
            allocatable: resource -> amount, of the Node's status; a resource with an amount of 0 counts.
        """
        if names.SHARED_RESOURCE in allocatable:
            return OTHER_SLOTS
        return None if any(self.own_dev.glob(GPU_NODES)) else NO_EFFECT
