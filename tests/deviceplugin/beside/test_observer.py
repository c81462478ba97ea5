"""The agent observes a kubelet to which a stand-in for NVIDIA's plugin has given its devices."""

import json
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.objects.device_usage import DeviceUsage, NodeUsage
from cluster.objects.inventory import is_replica
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node, NodeStatus
from cluster.process.clock import SystemClock
from deviceplugin.beside.observer import Observer
from deviceplugin.device_cache import DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointFile
from deviceplugin.kubelet.pod_resources import PodResources
from deviceplugin.kubelet.pod_source import PodSource
from deviceplugin.kubelet.pods_api import PodsApi
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.watch import NvmlReport
from tests.deviceplugin.beside.test_numbering import GPU, gpu
from tests.fakes.kubelet import FakeContainer, FakeKubelet, FakePod
from tests.standin.running import running, whole


def observing(kubelet: FakeKubelet) -> Observer:
    pods = PodSource(
        PodsApi(kubelet.root / "pods-api" / "pods-api.sock", SystemClock()),
        PodResources(kubelet.root / "no-socket"),
        tuple,
    )
    made = Observer(
        "node-a",
        DeviceCache(),
        checkpoint=CheckpointFile(kubelet.plugins, GPU),
        pods=pods.at_once,
        metrics=AgentMetrics(CollectorRegistry()),
        clock=FakeClock(),
    )
    made.update(NvmlReport(tuple(map(gpu, range(4)))))
    return made


def look(observer: Observer, kubelet: FakeKubelet) -> list[str]:
    """The kubelet writes the Node, the agent has a round; the numbers that can be given out."""
    amounts: dict[str, str | int] = {GPU: str(kubelet.allocatable)}
    observer.observe(Node(metadata=Meta(name="node-a"), status=NodeStatus(allocatable=amounts)))
    observer.once()
    return [device.uuid for device in observer.shown.now.devices if device.is_healthy]


def pod(number: int) -> FakePod:
    assigned = {names.ASSIGNED: json.dumps({"main": [f"node-a-{number}"]})}
    return FakePod(f"pod-{number}", f"uid-{number}", [FakeContainer("main", 1)], annotations=assigned)


def test_the_node_serves_while_the_other_plugin_has_gpus(kubelet: FakeKubelet) -> None:
    observer = observing(kubelet)
    assert look(observer, kubelet) == []
    assert not observer.is_registered
    with running(kubelet, whole()):
        eventually(lambda: kubelet.allocatable == 4)
        eventually(lambda: len(look(observer, kubelet)) == 4)
        assert look(observer, kubelet) == [f"node-a-{number}" for number in range(4)]
        assert observer.is_registered, observer.problem
        kubelet.restart()
        eventually(lambda: kubelet.allocatable == 4)
        eventually(lambda: len(look(observer, kubelet)) == 4)
        assert observer.is_registered
    eventually(lambda: kubelet.allocatable == 0)
    assert look(observer, kubelet) == []
    assert "allocatable" in (observer.problem or "")


def test_a_gpu_that_the_other_plugin_finds_unhealthy_takes_a_free_number_out(kubelet: FakeKubelet) -> None:
    observer = observing(kubelet)
    with running(kubelet, whole()) as plugin:
        eventually(lambda: kubelet.allocatable == 4)
        assert kubelet.admit(pod(3))
        assert len(look(observer, kubelet)) == 4
        plugin.unhealthy("GPU-1")
        eventually(lambda: kubelet.allocatable == 3)
        found = look(observer, kubelet)
        assert len(found) == 3
        assert "node-a-3" in found
        assert look(observer, kubelet) == found


def test_the_use_of_a_gpu_is_reported_under_the_number_of_the_pod_that_has_it(kubelet: FakeKubelet) -> None:
    observer = observing(kubelet)
    with running(kubelet, whole()):
        eventually(lambda: kubelet.allocatable == 4)
        assert kubelet.admit(pod(2))
        look(observer, kubelet)
        (real,) = kubelet.devices_of("uid-2")
        use = NodeUsage(
            at=datetime(2026, 1, 1, tzinfo=UTC), devices=(DeviceUsage(uuid=real, utilisation=87),)
        )
        (reported,) = observer.as_reported(use).devices
        assert (reported.uuid, reported.real, reported.utilisation) == ("node-a-2", real, 87)


def test_replicas_are_counted_as_turns(kubelet: FakeKubelet) -> None:
    observer = observing(kubelet)
    with running(kubelet, {GPU: ([f"GPU-{number}" for number in range(4)], 2)}):
        eventually(lambda: kubelet.allocatable == 8)
        eventually(lambda: len(look(observer, kubelet)) == 8)
        assert all(map(is_replica, observer.shown.now.devices))
