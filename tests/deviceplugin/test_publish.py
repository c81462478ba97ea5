"""What is written on the Node about its GPUs."""

import threading
from collections.abc import Callable

import msgspec
from prometheus_client import CollectorRegistry

from cluster import event_reasons, names
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.events import EventRecorder
from cluster.kube.resources import NODES
from cluster.objects.assignment import drift_of
from cluster.objects.inventory import Device, Sharing, inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.metrics import AgentMetrics
from deviceplugin.node.label_writer import LabelWriter
from deviceplugin.publish import (
    READ_NODE_EVERY,
    WRITE_EVERY,
    GpuEventReporter,
    Publisher,
    PublisherSources,
    SharingModeReporter,
    changes,
    wanted,
)
from tests.deviceplugin.pods import held, pod

GPUS = tuple(Device(uuid=f"GPU-{i}", index=i, model="NVIDIA-A100") for i in range(2))


class Checkpoint:
    """A kubelet's checkpoint that a test writes."""

    def __init__(self) -> None:
        self.holdings: PodDevices | None = PodDevices()

    def read(self) -> PodDevices:
        if self.holdings is None:
            raise CheckpointError("unknown form")
        return self.holdings


class Bench:
    """A publisher with everything around it."""

    def __init__(
        self, pods: Callable[[], tuple[Pod, ...] | None] = tuple, *, self_advancing: bool = True
    ) -> None:
        self.clock = FakeClock(self_advancing=self_advancing)
        self.kube = FakeKube(self.clock)
        self.kube.put(NODES, {"metadata": {"name": "node-a", "annotations": {"other": "stays"}}})
        self.device_cache, self.checkpoint = DeviceCache(), Checkpoint()
        self.labels: dict[str, str] | None = None
        self.registry = CollectorRegistry()
        self.observed: list[Node] = []
        self.recorder = EventRecorder(
            self.kube, self.clock, component=names.NODE_AGENT, registry=self.registry
        )
        self.reporter = GpuEventReporter(self.recorder)
        self.publisher = Publisher(
            self.kube,
            "node-a",
            PublisherSources(
                device_cache=self.device_cache,
                checkpoint=self.checkpoint,
                pods=pods,
                observe=self.observed.append,
                label=LabelWriter(self.kube, lambda: self.labels, self.clock).write,
                report=self.reporter.report,
            ),
            metrics=AgentMetrics(self.registry),
            clock=self.clock,
        )

    @property
    def node(self) -> Node:
        return self.kube.get(NODES, "node-a")

    def says(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"{names.METRICS_PREFIX}_agent_{name}")

    @property
    def events(self) -> list[str]:
        """Events about the Node, in order."""
        self.recorder.flush()
        bodies = [call.body or {} for call in self.kube.calls if call.verb == "POST"]
        return [f"{body['reason']}: {body['message']}" for body in bodies if "involvedObject" in body]

    @property
    def writes(self) -> int:
        return sum(call.verb == "PATCH" for call in self.kube.calls)


def test_the_inventory_is_written_once_and_again_when_it_changes() -> None:
    bench = Bench()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.publisher.once()
    bench.publisher.once()
    assert inventory_of(bench.node) == GPUS
    assert bench.node.metadata.annotation("other") == "stays"
    assert bench.writes == 1
    unhealthy = msgspec.structs.replace(GPUS[0], health="unhealthy", reason="XID 79")
    bench.device_cache.put(AdvertisedDevices((unhealthy, GPUS[1]), reported=True))
    bench.publisher.once()
    assert inventory_of(bench.node)[0].reason == "XID 79"
    assert bench.writes == 2


def test_a_failed_write_is_tried_again_and_reported_meanwhile() -> None:
    bench = Bench()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.kube.fail("PATCH", refused(Request("PATCH", "/api/v1/nodes/node-a"), Refusal(500, "InternalError")))
    assert bench.publisher.once()
    assert "could not be written to the Node" in (bench.publisher.problem or "")
    assert not bench.publisher.once()
    assert bench.publisher.problem is None
    assert inventory_of(bench.node) == GPUS


def test_gpus_that_are_no_longer_visible_stay_in_the_inventory_as_unhealthy() -> None:
    bench = Bench()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.publisher.once()
    bench.device_cache.put(AdvertisedDevices(problem="The driver is not loaded", reported=True))
    bench.publisher.once()
    assert [(d.uuid, d.reason) for d in inventory_of(bench.node)] == [
        ("GPU-0", "The driver is not loaded"),
        ("GPU-1", "The driver is not loaded"),
    ]


def test_drift_is_written_and_removed() -> None:
    bench = Bench(lambda: (pod("a", assignment=["GPU-0"]),))
    bench.checkpoint.holdings = held(a="GPU-1")
    bench.publisher.once()
    assert drift_of(bench.node) == {"a": {"main": ("GPU-1",)}}
    assert bench.says("drifting_pods") == 1
    bench.checkpoint.holdings = held(a="GPU-0")
    bench.publisher.once()
    assert bench.node.metadata.annotation(names.DRIFT) is None
    assert bench.says("drifting_pods") == 0


def test_drift_stays_as_it_was_while_the_kubelet_does_not_answer() -> None:
    bench = Bench(lambda: None)
    bench.kube.patch(
        NODES, "node-a", {"metadata": {"annotations": {names.DRIFT: '{"a":{"main":["GPU-1"]}}'}}}
    )
    bench.checkpoint.holdings = held(a="GPU-0")
    before = bench.writes
    bench.publisher.once()
    bench.checkpoint.holdings = None
    bench.publisher.once()
    assert bench.writes == before


def test_an_unreadable_inventory_on_the_node_is_replaced() -> None:
    node = msgspec.convert({"metadata": {"annotations": {names.INVENTORY: "{"}}}, Node)
    assert changes(wanted(AdvertisedDevices(GPUS, reported=True), None, node), node).keys() == {
        names.INVENTORY
    }
    gone = wanted(AdvertisedDevices(problem="no driver", reported=True), None, node)
    assert changes(gone, node) == {names.INVENTORY: None}


def test_the_thread_writes_a_change_of_the_device_cache_at_once() -> None:
    bench = Bench()
    stop = threading.Event()
    thread = threading.Thread(target=bench.publisher.run, args=(stop,))
    thread.start()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    eventually(lambda: inventory_of(bench.node) == GPUS)
    stop.set()
    thread.join()


def test_events_report_why_a_gpu_gets_no_new_pods_and_when_it_does_again() -> None:
    bench = Bench()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.publisher.once()
    assert bench.events == []
    unhealthy = msgspec.structs.replace(GPUS[0], health="unhealthy", reason="XID 48: double-bit memory error")
    bench.device_cache.put(AdvertisedDevices((unhealthy, GPUS[1]), reported=True))
    bench.publisher.once()
    bench.publisher.once()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.publisher.once()
    assert bench.events == [
        f"{event_reasons.GPU_UNHEALTHY}: GPU 0 (GPU-0) gets no new pods. XID 48: double-bit memory error.",
        f"{event_reasons.GPU_HEALTHY}: GPU 0 (GPU-0) is healthy again: it gets new pods.",
    ]


def test_events_say_which_gpu_cannot_be_shared_under_mps_any_more_and_that_it_can_again() -> None:
    bench = Bench()
    silent = msgspec.structs.replace(GPUS[0], share=Sharing(slots=4, memory=1))
    answering = msgspec.structs.replace(silent, share=Sharing(slots=4, memory=1, modes=("time-slice", "mps")))
    reporter = SharingModeReporter(bench.recorder)
    for device in (answering, silent, silent, answering):
        reporter.report(bench.node, (device,))
    assert [text.partition(":")[0] for text in bench.events] == [
        event_reasons.SHARING_MODE_LOST,
        event_reasons.SHARING_MODE_BACK,
    ]


def test_the_node_is_observed_before_anything_is_written() -> None:
    bench = Bench()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.publisher.once()
    assert [node.metadata.annotation(names.INVENTORY) for node in bench.observed] == [None]


def test_labels_are_written_beside_the_inventory_and_again_when_removed() -> None:
    bench = Bench()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.labels = {f"{names.NVIDIA_PREFIX}gpu.count": "2"}
    bench.publisher.once()
    bench.publisher.once()
    assert (inventory_of(bench.node), bench.node.metadata.labels) == (GPUS, bench.labels)
    assert bench.writes == 2
    bench.kube.patch(NODES, "node-a", {"metadata": {"labels": dict.fromkeys(bench.labels)}})
    bench.clock.advance(READ_NODE_EVERY)
    bench.publisher.once()
    assert bench.node.metadata.labels == bench.labels


def test_refused_labels_do_not_keep_the_inventory_from_being_written() -> None:
    bench = Bench()
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    bench.publisher.once()
    bench.labels = {f"{names.NVIDIA_PREFIX}gpu.count": "2"}
    bench.kube.fail("PATCH", refused(Request("PATCH", "/api/v1/nodes/node-a"), Refusal(403, "Forbidden")))
    assert not bench.publisher.once()
    assert bench.publisher.problem is None
    unhealthy = msgspec.structs.replace(GPUS[0], health="unhealthy", reason="XID 79")
    bench.device_cache.put(AdvertisedDevices((unhealthy, GPUS[1]), reported=True))
    bench.publisher.once()
    assert inventory_of(bench.node)[0].reason == "XID 79"
    assert not bench.node.metadata.labels


def test_a_gpu_that_comes_and_goes_is_written_once_a_second_at_most() -> None:
    bench = Bench()
    clock = FakeClock()
    publisher = Publisher(
        bench.kube,
        "node-a",
        PublisherSources(device_cache=bench.device_cache, checkpoint=bench.checkpoint, pods=tuple),
        metrics=AgentMetrics(CollectorRegistry()),
        clock=clock,
    )
    bench.device_cache.put(AdvertisedDevices(GPUS, reported=True))
    unhealthy = (msgspec.structs.replace(GPUS[0], health="unhealthy", reason="XID 48"), GPUS[1])
    stop = threading.Event()
    thread = threading.Thread(target=publisher.run, args=(stop,))
    thread.start()
    eventually(lambda: bench.writes == 1)
    for number in range(100):
        clock.until_waiting()
        bench.device_cache.put(AdvertisedDevices((unhealthy, GPUS)[number % 2], reported=True))
        clock.advance(0.05)
    seconds = clock.monotonic()
    clock.until_waiting()
    clock.advance(WRITE_EVERY)
    eventually(lambda: inventory_of(bench.node) == GPUS)
    assert 2 <= bench.writes <= seconds / WRITE_EVERY + 2
    stop.set()
    bench.device_cache.put(AdvertisedDevices(unhealthy, reported=True))
    clock.advance(WRITE_EVERY)
    thread.join()


def test_the_publisher_ends_at_once_when_stopped() -> None:
    bench, stop = Bench(self_advancing=False), threading.Event()
    bench.device_cache.put(AdvertisedDevices(GPUS))
    thread = threading.Thread(target=bench.publisher.run, args=(stop,), daemon=True)
    thread.start()
    bench.clock.until_waiting()
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert bench.clock.monotonic() == 0
