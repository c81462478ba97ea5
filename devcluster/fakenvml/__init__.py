"""A simulated NVML: our own ``libnvidia-ml.so.1`` under the real pynvml, with GPUs that change at run time.

Tests and the development cluster use ``FakeNvml``; ``library`` compiles the C sources next to this file once
per machine. The library's values follow a survey of a real H200. No shipped code imports it.
"""

from devcluster.fakenvml.build import CompilerMissingError, library
from devcluster.fakenvml.fake import FakeNvml
from devcluster.fakenvml.specs import (
    A100_80GB,
    H200,
    RTX_A6000,
    GpuProfile,
    GpuSpec,
    MigSpec,
    default_gpus,
    gpu,
    gpus_of,
    mig,
    split,
)

__all__ = [
    "A100_80GB",
    "H200",
    "RTX_A6000",
    "CompilerMissingError",
    "FakeNvml",
    "GpuProfile",
    "GpuSpec",
    "MigSpec",
    "default_gpus",
    "gpu",
    "gpus_of",
    "library",
    "mig",
    "split",
]
