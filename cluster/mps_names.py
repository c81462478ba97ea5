"""Names of NVIDIA's Multi-Process Service, and of the files by which its daemons and the node agent speak.

Each GPU has a folder of its UUID, which the agent and the pod with the daemons find at the same path. The
program of that pod is charts/gpu-booking/files/mps.sh.
"""

from typing import Final

PIPES: Final = "pipe"
"""In a GPU's folder: where clients find its control daemon."""
WANTED: Final = "wanted"
"""In a GPU's folder, by the node agent: it is there as long as pods share the GPU in this mode."""
STATE: Final = "state"
"""In a GPU's folder, by the daemons' pod: the compute mode, written anew whenever the control daemon has
answered. An old one says that it does not answer."""
EXCLUSIVE: Final = "EXCLUSIVE_PROCESS"
"""The compute mode in which nobody can use the GPU around its daemon."""
OWNER: Final = "pod"
"""Beside the GPUs' folders, by the daemons' pod: its uid."""

PIPE_VARIABLE: Final = "CUDA_MPS_PIPE_DIRECTORY"
"""For a process: where the control daemon is."""
MEMORY_VARIABLE: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
"""For a process: the memory that it may have of each of its GPUs, ``0=8192M``."""
THREADS_VARIABLE: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""For a process: percent of the multiprocessors that it may use at one time."""
