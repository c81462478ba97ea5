"""A clock that jumps, by a second or by years, changes nothing of what the agent does."""

import threading
from datetime import datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.resources import NODES
from cluster.objects.inventory import inventory_of
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointFile
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.metrics import AgentMetrics
from deviceplugin.publish import Publisher, PublisherSources
from tests.deviceplugin.agents import devices

ROOM = Path(__file__).resolve().parents[2] / "deviceplugin"
READERS = {
    "__main__.py",  # the first number of its sockets, which are its alone
    "dra/servicer.py",  # when the health of devices was reported, for people
    "usage/monitor.py",  # when something was measured, for people
    "process/loop_watchdog.py",  # a clock itself
}


class Timeless(FakeClock):
    """A caller that asks it for the time of day fails."""

    def now(self) -> datetime:
        raise AssertionError("the time of day is asked for")


def test_no_module_that_decides_anything_reads_the_time_of_day() -> None:
    asking = {
        str(path.relative_to(ROOM))
        for path in ROOM.rglob("*.py")
        if "clock.now()" in path.read_text(encoding="utf-8")
    }
    assert asking == READERS


def test_devices_are_published_without_the_time_of_day(tmp_path: Path) -> None:
    kube, device_cache, clock = FakeKube(), DeviceCache(), Timeless()
    kube.put(NODES, {"metadata": {"name": "node-a"}})
    facts = PublisherSources(
        device_cache=device_cache, checkpoint=CheckpointFile(tmp_path, names.GPU_RESOURCE), pods=tuple
    )
    publisher = Publisher(kube, "node-a", facts, metrics=AgentMetrics(CollectorRegistry()), clock=clock)
    stop = threading.Event()
    thread = threading.Thread(target=publisher.run, args=(stop,))
    thread.start()
    device_cache.put(AdvertisedDevices(devices(2), reported=True))
    eventually(lambda: len(inventory_of(kube.get(NODES, "node-a"))) == 2, deadline=60)
    stop.set()
    device_cache.put(AdvertisedDevices(devices(1), reported=True))
    clock.advance(60)
    thread.join()


def test_an_agent_that_restarts_at_an_earlier_time_takes_other_socket_names() -> None:
    """Numbers begin at the time of the start, in milliseconds: only that very one would be used again."""
    before, after = SocketNames("uid-1", 1_700_000_000_000), SocketNames("uid-1", 1_600_000_000_000)
    first = {before.next() for _ in range(1000)}
    second = {after.next() for _ in range(1000)}
    assert not first & second
    assert all(after.is_ours(name) for name in first)
