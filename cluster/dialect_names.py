"""Names by which users of other products ask for a share of a GPU: HAMi's, KAI's and gpushare's.

The amounts that our own users write as well are in ``cluster.names``.
"""

from typing import Final

from cluster import names

GPUSHARE_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
"""On a pod with gpushare's request, by the Binding: the number of its GPU. The names are theirs."""
GPUSHARE_ID: Final = "ALIYUN_GPU_ID"
"""The same, under the name of gpushare's design."""
GPUSHARE_DEVICE: Final = "ALIYUN_COM_GPU_MEM_DEV"
"""What that GPU offers in all, in the unit of the request."""
GPUSHARE_POD: Final = "ALIYUN_COM_GPU_MEM_POD"
"""What the pod has of it, in the unit of the request."""
GPUSHARE_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
"""When that was decided, in nanoseconds since 1970."""
GPUSHARE_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
"""``true`` at once: the choice is final, and no node agent has to confirm it."""
GPUSHARE_COUNT: Final = "aliyun.com/gpu-count"
"""In the status of a Node, by a setting: how many of its GPUs can be shared, beside their memory."""
GPUSHARE_STATE: Final = (
    GPUSHARE_INDEX,
    GPUSHARE_ID,
    GPUSHARE_DEVICE,
    GPUSHARE_POD,
    GPUSHARE_TIME,
    GPUSHARE_ASSIGNED,
)
"""What ``kubectl inspect gpushare`` and other tools of gpushare read."""
ALIYUN_VARIABLE: Final = "ALIYUN_COM_GPU_MEM_"
"""gpushare's variables begin with it: ``IDX`` (index of the GPU), and in the unit of ``ALIYUN_MEMORY`` what
the ``POD``, the ``CONTAINER`` and the GPU (``DEV``) have."""
HAMI_TYPE: Final = f"{names.NVIDIA_PREFIX}use-gputype"
"""On a HAMi user's pod: parts of the names of models that it accepts, comma-separated."""
HAMI_NOT_TYPE: Final = f"{names.NVIDIA_PREFIX}nouse-gputype"
"""On a HAMi user's pod: parts of the names of models that it does not accept, comma-separated."""
HAMI_UUID: Final = f"{names.NVIDIA_PREFIX}use-gpuuuid"
"""On a HAMi user's pod: the GPUs that it accepts, comma-separated."""
HAMI_NOT_UUID: Final = f"{names.NVIDIA_PREFIX}nouse-gpuuuid"
"""On a HAMi user's pod: the GPUs that it does not accept, comma-separated."""
HAMI_PRIORITY: Final = f"{names.NVIDIA_PREFIX}priority"
"""A limit of HAMi's that means nothing here: no node offers it, so admission takes it out."""
KAI_FRACTION: Final = "gpu-fraction"
"""On a KAI user's pod: the part of each GPU's memory, ``0.5``. Read once, when the pod is created."""
KAI_MEMORY: Final = "gpu-memory"
"""On a KAI user's pod: MiB of each GPU. Read once, when the pod is created."""
KAI_DEVICES: Final = f"{KAI_FRACTION}-num-devices"
"""On a KAI user's pod: of how many GPUs it has that part; 1 if missing."""
KAI_CONTAINER: Final = f"{KAI_FRACTION}-container-name"
"""On a KAI user's pod: the container that gets it; the first one if missing."""
KAI_RESERVED: Final = "run.ai/reserve_for_gpu_index"
"""On a reservation pod: UUID of its GPU. KAI's own reservation pods have it, under this name."""
KAI_GROUP: Final = "runai-gpu-group"
"""Label of a reservation pod, as KAI's own have it: what all pods on its GPU have in common."""
KAI_REQUESTS: Final = (KAI_FRACTION, KAI_MEMORY)
"""The annotations that request a share, as a limit does."""
