"""Nodes of a few cards, as NVML describes them, for tests of their labels."""

from typing import Any

from deviceplugin.node.feature_labels import LabelInputs
from deviceplugin.nvml.interface import GpuFacts, MigFacts, MigShape, Versions
from deviceplugin.nvml.inventory import NodeDevice, read_inventory
from tests.fakes.nvml import MemoryGpu, MemoryNvml

A100, A6000 = "NVIDIA A100-SXM4-80GB", "NVIDIA RTX A6000"
SHAPE = MigShape(
    processors=14, gpu_slices=1, compute_slices=1, copy_engines=1, decoders=0, encoders=0, ofa_engines=0
)


def card(index: int, name: str = A100, **facts: Any) -> MemoryGpu:
    """An A100, unless it is said otherwise."""
    known: dict[str, Any] = {"memory_mib": 81920, "compute": (8, 0), "can_mig": True} | facts
    return MemoryGpu(f"GPU-{index}", GpuFacts(name, f"0000:{index + 7:02x}:00.0", index, **known))


def cut(gpu: MemoryGpu, *profiles: str) -> MemoryGpu:
    """The card in MIG mode, with these devices."""
    gpu.mig = [
        MigFacts(f"MIG-{gpu.uuid}-{number}", profile, number + 1, 0, 9728, SHAPE)
        for number, profile in enumerate(profiles)
    ]
    return gpu


def devices(*gpus: MemoryGpu, known: tuple[NodeDevice, ...] = ()) -> tuple[NodeDevice, ...]:
    """What the agent reads of them."""
    nvml = MemoryNvml(list(gpus))
    nvml.open()
    return read_inventory(nvml, lambda _: None, known)


def label_inputs(*gpus: MemoryGpu, **fields: Any) -> LabelInputs:
    """A node of these cards, unless it is said otherwise."""
    given: dict[str, Any] = {
        "devices": devices(*gpus),
        "versions": Versions("580.159.04", (13, 0)),
        "machine": "DGX A100",
        "pci_class": "0x030200",
    }
    return LabelInputs(**(given | fields))
