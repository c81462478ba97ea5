"""A pod's requirements for its devices, read from the pod: which of a node's devices it accepts.

Filter, bind, the reclaimer's plans, cover and explanations all use ``DeviceSelector``. A requirement that
cannot be read is ignored; admission warns its writer.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from cluster import names
from cluster.objects.inventory import Device, is_mixed, spellings
from cluster.objects.pods import Pod, requested_models
from cluster.objects.quantity import QuantityError, parse_amount

MIB: Final = 2**20
NONE: Final[frozenset[str]] = frozenset()
_LONGEST_NUMBER: Final = 12
"""Number of digits: more mebibytes than anything has."""


@dataclass(frozen=True, slots=True)
class DeviceSelector:
    """Which devices a pod accepts. Without any requirement it accepts every device."""

    models: frozenset[str] = frozenset()
    """In label form, or MIG profiles (``1g.10gb``); empty for any."""
    not_models: frozenset[str] = frozenset()
    min_memory: int = 0
    """MiB."""
    uuids: frozenset[str] = frozenset()
    """Empty for any. The UUID of a GPU includes its MIG devices."""
    not_uuids: frozenset[str] = frozenset()
    claimable: frozenset[str] | None = None
    """UUIDs of the devices that its claims accept for certain; None for any."""
    doubt: str | None = None
    """Why it is not known which devices its claims accept, a clause."""

    @property
    def is_by_model(self) -> bool:
        """Whether it accepts all or none of the devices of one model and resource."""
        return not (self.min_memory or self.uuids or self.not_uuids) and self.claimable is None

    @property
    def names_devices(self) -> bool:
        """Whether it requires certain devices, or excludes some, by their UUIDs."""
        return bool(self.uuids or self.not_uuids)

    @property
    def names_models(self) -> bool:
        """Whether it requires or excludes models."""
        return bool(self.models or self.not_models)

    def takes(self, device: Device) -> bool:
        """Whether it accepts the device. Memory that the driver does not report counts as 0 (law L6)."""
        if self.models or self.not_models:
            names_of_it = spellings(device)
            if self.models and self.models.isdisjoint(names_of_it):
                return False
            if not self.not_models.isdisjoint(names_of_it) or (self.not_models and is_mixed(device)):
                return False
        if device.memory < self.min_memory:
            return False
        if self.claimable is not None and device.uuid not in self.claimable:
            return False
        if self.uuids and device.uuid not in self.uuids and device.parent not in self.uuids:
            return False
        return device.uuid not in self.not_uuids and device.parent not in self.not_uuids

    def may_overlap(self, other: "DeviceSelector") -> bool:
        """Whether some device could be accepted by both; by what they say, whatever devices exist."""
        for one, two in ((self, other), (other, self)):
            if one.models and two.models and one.models.isdisjoint(two.models):
                return False
            if one.models and one.models <= two.not_models:
                return False
            if one.uuids and one.uuids <= two.not_uuids:
                return False
        return True

    @property
    def of_model(self) -> str:
        """Its models, as part of a message: ``of model A or B``; equal selectors give equal text."""
        return f" of model {' or '.join(sorted(self.models))}" if self.models else ""

    @property
    def text(self) -> str:
        """The selector in a message: ``of model A with at least 40960 MiB``; empty if it has none."""
        return self.of_model + "".join(
            (
                f" other than model {' and '.join(sorted(self.not_models))}" if self.not_models else "",
                f" with at least {self.min_memory} MiB" if self.min_memory else "",
                f" among {', '.join(sorted(self.uuids))}" if self.uuids else "",
                f" not among {', '.join(sorted(self.not_uuids))}" if self.not_uuids else "",
                " that its claims accept" if self.claimable is not None else "",
                f" (not known, so no pod leaves for it: {self.doubt})" if self.doubt else "",
            )
        )


def device_selector_of(pod: Pod) -> DeviceSelector:
    """The pod's own requirements."""
    return DeviceSelector(
        models=requested_models(pod),
        not_models=frozenset(map(names.model_label, _listed(pod, names.NOT_MODEL))),
        min_memory=_min_memory(pod),
        uuids=_listed(pod, names.UUID),
        not_uuids=_listed(pod, names.NOT_UUID),
        claimable=pod.claims.accepted if pod.claims else None,
        doubt=pod.claims.problem if pod.claims else None,
    )


def mebibytes(text: str) -> int:
    """MiB of a requested amount of memory: ``40960`` as nvidia-smi counts; ``40Gi``, ``80G`` as quantities.

    Raises:
        QuantityError: the text cannot be read.
    """
    text = text.strip()
    if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER:
        return int(text)
    return ceil(parse_amount(text) / MIB)


def _min_memory(pod: Pod) -> int:
    text = pod.metadata.annotation(names.MIN_MEMORY)
    try:
        return mebibytes(text) if text else 0
    except QuantityError:
        return 0


def _listed(pod: Pod, key: str) -> frozenset[str]:
    text = pod.metadata.annotation(key)
    return frozenset(part for each in text.split(",") if (part := each.strip())) if text else NONE
