"""The Node's wanted labels: names and values of NVIDIA's GPU feature discovery 0.20. Pure.

Its labels describe one model for each node. If there are several, they describe the one with the most GPUs
(of equal ones, the first). In addition every model that pods can get has a label of ours,
``names.MODEL_LABEL``, with the number of its devices, and ``names.MODELS_LABELLED`` says that these are all:
admission relies on that. We do not write ``gpu.clique``, the labels of virtual GPUs, or ``gfd.timestamp``,
since we are another program.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cluster import names
from deviceplugin.nvml.interface import MigShape, Versions
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.mig_strategy import MigStrategy, unequal

Labels = dict[str, str]

LONGEST: Final = 63
"""Maximum number of characters of a label's value, and of its name after the slash."""
UNKNOWN: Final = "unknown"
MODES: Final = {"0x030000": "graphics", "0x030200": "compute"}
"""Class of a PCI device -> ``gpu.mode``."""
FAMILIES: Final = {
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    7: "volta",
    8: "ampere",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}
"""First number of the compute capability -> ``gpu.family``."""
LATER_FAMILIES: Final = {(7, 5): "turing", (8, 9): "ada-lovelace"}
"""Families whose numbers begin among those of an earlier family."""
INVALID: Final = "INVALID"
"""Part of the product's name if MIG strategy ``single`` advertises nothing."""


@dataclass(frozen=True, kw_only=True)
class LabelInputs:
    """The data that the labels follow from."""

    devices: tuple[NodeDevice, ...]
    versions: Versions
    strategy: MigStrategy = MigStrategy.NONE
    machine: str = UNKNOWN
    """The machine's product name, by its firmware."""
    pci_class: str | None = None
    """PCI class of the first GPU for which the kernel reports it."""

    @property
    def whole(self) -> tuple[NodeDevice, ...]:
        """The GPUs that NVML lists, including partitioned ones."""
        return tuple(one for one in self.devices if one.listed and one.published.parent is None)

    @property
    def parts(self) -> tuple[NodeDevice, ...]:
        """The MIG devices that NVML lists."""
        return tuple(one for one in self.devices if one.listed and one.published.parent is not None)


def labels(inputs: LabelInputs) -> Labels:
    """All labels of a node; none if it has no GPU."""
    if not inputs.whole:
        return {}
    return _of_the_node(inputs) | _of_the_gpus(inputs) | _of_mig(inputs) | _of_models(inputs)


def label_value(text: str) -> str:
    """The text as feature discovery writes it into a label.

    >>> label_value("NVIDIA GeForce RTX(TM) 4090")
    'NVIDIA-GeForce-RTXTM-4090'
    """
    return names.as_label(text)[:LONGEST].strip("-_.")


def family(compute: tuple[int, int]) -> str:
    """The family of GPUs with this compute capability.

    >>> family((8, 6)), family((8, 9)), family((99, 0))
    ('ampere', 'ada-lovelace', 'undefined')
    """
    later = [name for first, name in LATER_FAMILIES.items() if first[0] == compute[0] and first <= compute]
    return later[0] if later else FAMILIES.get(compute[0], "undefined")


def _of_the_node(inputs: LabelInputs) -> Labels:
    can_mig = any(one.facts is not None and one.facts.can_mig for one in inputs.whole)
    return {
        **_nvidia("gpu", {"machine": label_value(inputs.machine) or UNKNOWN, "mode": _mode(inputs)}),
        **_nvidia("mig", {"capable": str(can_mig).lower()}),
        **_nvidia("mps", {"capable": "false"}),
        **_driver(inputs.versions.driver),
        **(_cuda(inputs.versions.cuda) if inputs.versions.cuda else {}),
    }


def _mode(inputs: LabelInputs) -> str:
    return MODES.get(inputs.pci_class or "", UNKNOWN)


def _driver(version: str) -> Labels:
    """The driver's version, also in parts if it has two or three, under the names since and before 0.12."""
    numbers = version.split(".")
    labels = _nvidia("cuda.driver-version", {"full": label_value(version)})
    if len(numbers) not in {2, 3}:
        return labels
    major, minor, revision = (*numbers, "")[:3]
    parts = {"major": major, "minor": minor}
    return {
        **labels,
        **_nvidia("cuda.driver-version", {**parts, "revision": revision}),
        **_nvidia("cuda.driver", {**parts, "rev": revision}),
    }


def _cuda(version: tuple[int, int]) -> Labels:
    major, minor = map(str, version)
    parts = {"major": major, "minor": minor}
    return {
        **_nvidia("cuda.runtime-version", {**parts, "full": f"{major}.{minor}"}),
        **_nvidia("cuda.runtime", parts),
    }


def _of_the_gpus(inputs: LabelInputs) -> Labels:
    """The labels of the model with the most GPUs."""
    counts = Counter(one.published.model for one in inputs.whole)
    model, count = counts.most_common(1)[0]
    alike = [one for one in inputs.whole if one.published.model == model]
    first = next((one for one in alike if not one.partitioned), alike[0])
    labels = _counted((model,), count, replicas=0 if first.partitioned else 1)
    if first.published.memory:
        labels["memory"] = str(first.published.memory)
    if first.facts is not None and first.facts.compute is not None:
        major, minor = first.facts.compute
        labels |= {"family": family((major, minor)), "compute.major": str(major), "compute.minor": str(minor)}
    return _nvidia("gpu", labels)


def _of_mig(inputs: LabelInputs) -> Labels:
    match inputs.strategy:
        case MigStrategy.NONE:
            return {}
        case MigStrategy.SINGLE:
            return _nvidia("mig", {"strategy": inputs.strategy.value}) | _of_a_single_profile(inputs)
        case MigStrategy.MIXED:
            found = _nvidia("mig", {"strategy": inputs.strategy.value})
            for profile, parts in _profiles(inputs).items():
                found |= _nvidia(f"mig-{profile.replace('+', '.')}", _of_parts(inputs, profile, parts))
            return found


def _of_a_single_profile(inputs: LabelInputs) -> Labels:
    """Labels that replace those of whole GPUs, if some GPUs are partitioned."""
    cut = [one for one in inputs.whole if one.partitioned]
    if not cut:
        return {}
    profiles = _profiles(inputs)
    if len(profiles) != 1 or unequal((*inputs.whole, *inputs.parts)):
        product = _counted((cut[0].published.model, "MIG", INVALID), 0, replicas=0)
        return _nvidia("gpu", {**product, "memory": "0"})
    ((profile, parts),) = profiles.items()
    return _nvidia("gpu", _of_parts(inputs, profile, parts))


def _profiles(inputs: LabelInputs) -> dict[str, list[NodeDevice]]:
    found: dict[str, list[NodeDevice]] = {}
    for part in inputs.parts:
        if part.published.profile is not None:
            found.setdefault(part.published.profile, []).append(part)
    return found


def _of_parts(inputs: LabelInputs, profile: str, parts: Sequence[NodeDevice]) -> Labels:
    """The labels of MIG devices of one profile."""
    whole = {one.uuid: one for one in inputs.whole}
    parent = whole.get(parts[0].published.parent or "")
    model = parent.published.model if parent else UNKNOWN
    labels = _counted((model, "MIG", profile), len(parts), replicas=1)
    labels["memory"] = str(parts[0].published.memory)
    return labels | (_shape(parts[0].part.shape) if parts[0].part else {})


def _shape(shape: MigShape) -> Labels:
    return {
        "multiprocessors": str(shape.processors),
        "slices.gi": str(shape.gpu_slices),
        "slices.ci": str(shape.compute_slices),
        "engines.copy": str(shape.copy_engines),
        "engines.decoder": str(shape.decoders),
        "engines.encoder": str(shape.encoders),
        "engines.jpeg": str(shape.jpeg_engines),
        "engines.ofa": str(shape.ofa_engines),
    }


def _counted(product: Iterable[str], count: int, *, replicas: int) -> Labels:
    """Labels about number and sharing. ``replicas``: 1, or 0 for a GPU that pods cannot get as a whole."""
    return {
        "product": label_value("-".join(label_value(part) for part in product)),
        "count": str(count),
        "replicas": str(replicas),
        "sharing-strategy": "none",
    }


def _of_models(inputs: LabelInputs) -> Labels:
    """The number of devices of each model that pods can get, including unhealthy ones, and of all models."""
    parts = () if inputs.strategy is MigStrategy.NONE else inputs.parts
    given = (*(one for one in inputs.whole if not one.partitioned), *parts)
    counts = Counter(label_value(one.published.model) for one in given)
    found = {names.MODEL_LABEL + model: str(count) for model, count in counts.items() if model}
    return found | {names.MODELS_LABELLED: str(counts.total())}


def _nvidia(about: str, labels: Labels) -> Labels:
    return {f"{names.NVIDIA_PREFIX}{about}.{what}": value for what, value in labels.items()}
