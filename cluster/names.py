"""Every string that crosses a process, once: keys on objects, resource names, namespaces, Leases.

Users may write keys of ``gpu-booking.io/`` (wishes). Keys of ``state.gpu-booking.io/`` are written by
this product alone (law L7).
"""

from typing import Final

DOMAIN: Final = "gpu-booking.io"
STATE_DOMAIN: Final = f"state.{DOMAIN}"

# --- resources ---------------------------------------------------------------------------------------
GPU_RESOURCE: Final = "nvidia.com/gpu"
MIG_RESOURCE_PREFIX: Final = "nvidia.com/mig-"

# --- wishes, written by users on Pods ----------------------------------------------------------------
MODEL: Final = f"{DOMAIN}/model"
"""Models that the pod accepts: a comma-separated list, any spelling (``NVIDIA A100-SXM4-80GB`` too)."""

# --- state, written by us ----------------------------------------------------------------------------
INVENTORY: Final = f"{STATE_DOMAIN}/inventory"
"""On the Node, by its agent: the GPUs (``cluster.objects.inventory``)."""
ASSIGNED: Final = f"{STATE_DOMAIN}/assigned"
"""On the Pod, by the extender in the Binding: devices per container (``cluster.objects.assignment``)."""
DRIFT: Final = f"{STATE_DOMAIN}/drift"
"""On the Node, by its agent: devices really in a pod where they differ from ``ASSIGNED``; wins over it."""
STOPPING: Final = f"{STATE_DOMAIN}/stopping"
"""On the agent's Lease: its holder has said goodbye (SIGTERM)."""

RUNG: Final = f"{STATE_DOMAIN}/rung"
"""On our own CSIStorageCapacity ``WAKE``, by the extender: when it last woke kube-scheduler."""

# --- our own objects ---------------------------------------------------------------------------------
NAMESPACE: Final = "gpu-booking"
"""The namespace that the product is installed in, unless a setting says otherwise."""
NODE_LEASE_PREFIX: Final = "gpu-node-"
"""A node agent's Lease is ``gpu-node-<node>`` in ``NAMESPACE``."""
SCHEDULER_NAME: Final = "gpu-booking"
"""``spec.schedulerName`` of pods that our kube-scheduler profile schedules (mode ``dedicated``)."""
SCHEDULER_LEASE: Final = "gpu-booking-scheduler"
WAKE: Final = "gpu-booking-wake"
"""A CSIStorageCapacity that means nothing: touching it makes kube-scheduler look at rejected pods again."""
WAITING_FOR_GPU: Final = "WaitingForGPU"
"""``reason`` of the Events that say why a pod waits."""
CDI_KIND: Final = f"{DOMAIN}/gpu"
"""Kind of the devices in the agent's own CDI specification: ``gpu-booking.io/gpu=<uuid>``."""

# --- environment inside a container ------------------------------------------------------------------
DEVICES_VARIABLE: Final = "GPU_BOOKING_DEVICES"
"""UUIDs of the container's GPUs, comma-separated: for people; the device nodes are the truth."""
VISIBLE_DEVICES_VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"

# --- components, as they name themselves in Events, field managers and User-Agent ----------------------
NODE_AGENT: Final = "gpu-booking-node-agent"
EXTENDER: Final = "gpu-booking-extender"


def is_gpu_resource(name: str) -> bool:
    """Whether a resource name means GPUs that this product hands out (whole GPUs and MIG profiles).

    The one predicate of webhook, ledger and scheduler configuration.
    """
    return name == GPU_RESOURCE or name.startswith(MIG_RESOURCE_PREFIX)


def node_lease(node: str) -> str:
    """The name of the Lease that a node's agent renews."""
    return NODE_LEASE_PREFIX + node


def node_of_lease(lease: str) -> str | None:
    """The node whose agent renews this Lease, or None for a Lease that is not an agent's."""
    return lease.removeprefix(NODE_LEASE_PREFIX) if lease.startswith(NODE_LEASE_PREFIX) else None


def model_label(name: str) -> str:
    """A GPU model in the form in which it is stored, that of NVIDIA's feature discovery labels.

    >>> model_label("NVIDIA RTX A6000")
    'NVIDIA-RTX-A6000'
    """
    return "-".join(name.split())
