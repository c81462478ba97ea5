"""How far the GPUs of a node are from each other on the PCI bus, as NVML says it. It only ranks.

It is asked once for each pair, after the GPUs have been reported: NVML may take its time (10 ms on an H200),
and the kubelet is waiting for the devices. Which of the two hangs where a question hangs is not known, so
that nothing is asked any more after one that has hung.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations

from deviceplugin.nvml.interface import Nvml, NvmlError


class PciTopology:
    """What is known of the pairs."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._is_asking = False
        self._asked: set[tuple[str, str]] = set()
        self._known: dict[str, dict[str, int]] = {}

    @property
    def known(self) -> Mapping[str, Mapping[str, int]]:
        """GPU -> other GPU -> NVML's number, for one direction of each pair that it knows."""
        return {one: dict(others) for one, others in self._known.items()}

    def learn(self, gpus: Sequence[str]) -> bool:
        """Ask for the pairs of these GPUs that were never asked for; whether there were any."""
        new = [pair for pair in combinations(gpus, 2) if pair not in self._asked]
        if not new or self._is_asking:
            return False
        self._is_asking = True
        for pair in new:
            self._asked.add(pair)
            with suppress(NvmlError):
                self._ask(*pair)
        self._is_asking = False
        return True

    def _ask(self, one: str, other: str) -> None:
        way = self._nvml.topology_level(one, other)
        if way is not None:
            self._known.setdefault(one, {})[other] = way
