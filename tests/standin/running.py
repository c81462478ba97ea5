"""The stand-in for NVIDIA's plugin in a thread of the test, beside a kubelet in memory."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster import names
from tests.fakes.kubelet import FakeKubelet
from tests.standin.nvidia_plugin import Serving


@dataclass(frozen=True)
class Running:
    """A plugin that runs; ``unhealthy`` makes devices of its unhealthy for as long as it does."""

    file: Path

    def unhealthy(self, *devices: str) -> None:
        """These devices are sick from now on."""
        self.file.write_text("\n".join(devices), encoding="utf-8")


@contextmanager
def running(kubelet: FakeKubelet, resources: Mapping[str, tuple[list[str], int]]) -> Iterator[Running]:
    """A plugin of these resources: devices, and replicas of each."""
    stop, unhealthy = threading.Event(), kubelet.root / "unhealthy"
    offers = {
        name: {"devices": dict.fromkeys(devices, ""), "replicas": replicas}
        for name, (devices, replicas) in resources.items()
    }
    serving = Serving({"folder": str(kubelet.plugins), "unhealthy": str(unhealthy), "resources": offers})
    thread = threading.Thread(target=serving.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield Running(unhealthy)
    finally:
        stop.set()
        thread.join()


def whole(count: int = 4) -> dict[str, tuple[list[str], int]]:
    """All GPUs of a node, each given whole."""
    return {names.GPU_RESOURCE: ([f"GPU-{number}" for number in range(count)], 1)}
