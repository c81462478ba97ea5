"""A simulated NVML: our own ``libnvidia-ml.so.1`` under the real pynvml, changed while programs run.

``FakeNvml`` is what tests and the development cluster use; ``library`` compiles the C sources beside this
file once per machine. What the library answers follows a survey of a real H200. Nothing shipped imports it.
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
]
