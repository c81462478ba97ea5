"""What the kubelet hears of the health of claims' devices: all at once, and again after every change."""

import threading
from collections.abc import Callable
from pathlib import Path

from cluster import names
from cluster.process.clock import SystemClock
from deviceplugin.dra.driver import Pool
from deviceplugin.dra.servicer import Health
from deviceplugin.kubeletapi.dra_health_v1 import api_pb2
from tests.deviceplugin.dra.test_prepare import DEVICES, NODE, Lab


class Call:
    """The kubelet's call, as far as the stream asks for it."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._callback: Callable[[], None] | None = None

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self._callback = callback
        return not self._ended.is_set()

    def is_active(self) -> bool:
        return not self._ended.is_set()

    def end(self) -> None:
        self._ended.set()
        if self._callback:
            self._callback()


def told(response: api_pb2.NodeWatchResourcesResponse) -> dict[str, tuple[int, str]]:
    assert {one.device.pool_name for one in response.devices} == {NODE}
    return {one.device.device_name: (one.health, one.message) for one in response.devices}


def test_the_kubelet_is_told_of_each_change_until_it_hangs_up(tmp_path: Path) -> None:
    lab, call = Lab(tmp_path), Call()
    pool = Pool(driver=names.DRA_DRIVER, node=NODE, devices=lambda: DEVICES)
    health = Health(pool, lab.device_cache, SystemClock())
    stream = health.NodeWatchResources(api_pb2.NodeWatchResourcesRequest(), call)
    well = dict.fromkeys(DEVICES, (api_pb2.HEALTHY, ""))
    assert told(next(stream)) == well
    for broken in ("GPU-2", ""):
        lab.break_gpu(broken)
        sick = {name: (api_pb2.UNHEALTHY, "") for name, uuid in DEVICES.items() if uuid == broken}
        assert told(next(stream)) == well | sick
    call.end()
    assert list(stream) == []
