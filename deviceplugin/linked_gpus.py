"""The links of this node's GPUs, by NVML's last report, for choosing a container's GPUs."""

from collections.abc import Mapping, Sequence

from cluster.objects.inventory import Device
from deviceplugin.allocation.best_effort import best_effort
from deviceplugin.allocation.link_scores import Scores, scores
from deviceplugin.nvml.watch import NvmlReport


class Linked:
    """Receives the reports of the NVML thread. The kubelet's threads read what is ready, without a lock."""

    def __init__(self) -> None:
        self._scores: Scores = {}

    def update(self, report: NvmlReport) -> None:
        """Learn the links of a report; without GPUs in it they stay as they were."""
        whole = [device for device in report.devices if device.published.parent is None]
        if whole:
            self._scores = scores([device.published for device in whole], report.topology_levels)

    def pick(
        self, known: Mapping[str, Device], free: Sequence[str], chosen: frozenset[str], count: int
    ) -> Sequence[str]:
        """Choose ``count`` of the free GPUs; see ``mig_packing.DevicePick``."""
        del known
        return best_effort(self._scores, free, chosen, count)
