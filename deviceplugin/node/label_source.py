"""The labels that this node should have, by NVML's last report and the kernel's data about the machine."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from deviceplugin.node.feature_labels import UNKNOWN, LabelInputs, labels
from deviceplugin.nvml.mig_strategy import MigStrategy
from deviceplugin.nvml.watch import NvmlReport

MACHINE: Final = Path("class/dmi/id/product_name")
PCI_DEVICES: Final = Path("bus/pci/devices")


class Labelling:
    """Receives the reports of the NVML thread; the publisher's thread reads the labels."""

    def __init__(self, strategy: MigStrategy, sys_root: Path, *, on: bool) -> None:
        """Args: on: whether the Node gets labels; if not, labels that an agent of ours wrote are removed."""
        self._strategy = strategy
        self._sys_root = sys_root
        self._on = on
        self._lock = threading.Lock()
        self._wanted: Mapping[str, str] | None = None if on else {}

    @property
    def wanted(self) -> Mapping[str, str] | None:
        """The labels; None while they are not known, when the Node keeps those that it has."""
        with self._lock:
            return self._wanted

    def update(self, report: NvmlReport) -> None:
        """Take over a report; one without versions, of a driver that does not respond, is ignored."""
        if not self._on or report.versions is None:
            return
        inputs = LabelInputs(
            devices=report.devices,
            versions=report.versions,
            strategy=self._strategy,
            machine=_text(self._sys_root / MACHINE) or UNKNOWN,
            pci_class=next(filter(None, self._classes(report)), None),
        )
        with self._lock:
            self._wanted = labels(inputs)

    def _classes(self, report: NvmlReport) -> Iterator[str | None]:
        return (
            _text(self._sys_root / PCI_DEVICES / one.pci / "class") for one in report.devices if one.listed
        )


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
