"""The name of a MIG device's profile (``3g.40gb``), from NVML's properties of the device.

NVML has no call for it. The rule is that of NVIDIA's tools: the device's share of the GPU's memory, rounded
up to eighths, times the GPU's memory in whole GiB; a prefix such as ``1c.`` if a compute instance has only a
part of its GPU instance; a suffix such as ``+me`` if the profile has another set of engines than the plain
profile of its size.
"""

import math
from typing import Final

_EIGHTHS: Final = 8
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


def profile_name(
    *, gpu_slices: int, compute_slices: int, memory_mib: int, total_bytes: int, kind: str = ""
) -> str:
    """The name of the profile.

    >>> profile_name(gpu_slices=3, compute_slices=3, memory_mib=71424, total_bytes=150754820096)
    '3g.71gb'
    """
    share = math.ceil(memory_mib * _MIB / total_bytes * _EIGHTHS) / _EIGHTHS if total_bytes else 0
    gigabytes = math.floor(share * math.ceil(total_bytes / _GIB) + 0.5)
    part = "" if compute_slices == gpu_slices else f"{compute_slices}c."
    return f"{part}{gpu_slices}g.{gigabytes}gb{kind}"
