"""NVML's distances between the GPUs of a node on the PCI bus. They only rank GPUs.

NVML is called once for each pair, after the GPUs have been reported: a call may take 10 ms (on an H200), and
the kubelet is waiting for the devices. If a call hangs, it is unknown which of the two GPUs hangs, and no
further pair is read.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations

from deviceplugin.nvml.interface import Nvml, NvmlError


class PciTopology:
    """Reads distances between GPUs, and keeps those that are known."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._is_reading = False
        self._read_pairs: set[tuple[str, str]] = set()
        self._known: dict[str, dict[str, int]] = {}

    @property
    def known(self) -> Mapping[str, Mapping[str, int]]:
        """GPU -> other GPU -> NVML's number, for one direction of each known pair."""
        return {one: dict(others) for one, others in self._known.items()}

    def learn(self, gpus: Sequence[str]) -> bool:
        """Read the pairs of these GPUs that were never read before. Returns whether there were any."""
        new = [pair for pair in combinations(gpus, 2) if pair not in self._read_pairs]
        if not new or self._is_reading:
            return False
        self._is_reading = True
        for pair in new:
            self._read_pairs.add(pair)
            with suppress(NvmlError):
                self._ask(*pair)
        self._is_reading = False
        return True

    def _ask(self, one: str, other: str) -> None:
        level = self._nvml.topology_level(one, other)
        if level is not None:
            self._known.setdefault(one, {})[other] = level
