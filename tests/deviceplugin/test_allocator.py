"""One answer to the kubelet: what is read for it, how often, and what is counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import AllocationRequest, Verdict
from deviceplugin.allocator import Allocator, AllocatorSources
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.pod_source import PodsSnapshot
from deviceplugin.metrics import AgentMetrics
from tests.deviceplugin.agents import devices
from tests.deviceplugin.pods import held, pod

ALL = frozenset(device.uuid for device in devices(4))


@dataclass
class Pods:
    """The pods of the node, of which a watch may bring more."""

    known: tuple[Pod, ...] = ()
    later: tuple[Pod, ...] = ()
    """What the watch brings when it catches up."""
    reads: int = 0

    def for_admission(self, *, in_flight: bool) -> PodsSnapshot:
        """The pods that are known now."""
        del in_flight
        self.reads += 1
        return PodsSnapshot(self.known)

    def admitted(self, uid: str) -> None:
        """Nothing is made of it here."""

    def forget_admissions(self) -> None:
        """Nor of this."""

    def refused(self) -> None:
        """Neither of this."""

    def caught_up(self) -> bool:
        """Whether the watch has brought any."""
        has_more, self.known, self.later = bool(self.later), self.known + self.later, ()
        return has_more


@dataclass
class Checkpoint:
    """The kubelet's checkpoint."""

    holdings: PodDevices = field(default_factory=PodDevices)

    def read(self) -> PodDevices:
        """It never fails."""
        return self.holdings


class ChangingDevices(DeviceCache):
    """Devices that are others at each reading, as when NVML reports between two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.put(AdvertisedDevices(devices(4), reported=True))
        self.readings: list[AdvertisedDevices] = []

    @property
    def now(self) -> AdvertisedDevices:
        """The devices, and others the next time."""
        number = len(self.readings)
        self.readings.append(AdvertisedDevices(devices(4, model=f"model-{number}"), reported=True))
        return self.readings[-1]


class Picking:
    """Chooses in order, and keeps what it was given to choose by."""

    def __init__(self) -> None:
        self.known: list[Mapping[str, Device]] = []

    def __call__(
        self, known: Mapping[str, Device], free: Sequence[str], _chosen: frozenset[str], count: int
    ) -> Sequence[str]:
        self.known.append(known)
        return sorted(free)[:count]


class Agent:
    """An allocator and its sources."""

    def __init__(self, *known: Pod, later: tuple[Pod, ...] = (), holdings: PodDevices | None = None) -> None:
        self.pods = Pods(known, later)
        self.device_cache = ChangingDevices()
        self.pick = Picking()
        self.registry = CollectorRegistry()
        sources = AllocatorSources(
            resource=names.GPU_RESOURCE,
            device_cache=self.device_cache,
            checkpoint=Checkpoint(holdings or PodDevices()),
            pods=self.pods,
            pick=self.pick,
        )
        self.allocator = Allocator(sources, metrics=AgentMetrics(self.registry), clock=FakeClock())

    def metric(self, name: str) -> float:
        """A counter's value."""
        return self.registry.get_sample_value(f"{names.METRICS_PREFIX}_agent_{name}_total") or 0.0


def test_an_answer_is_computed_from_a_single_reading_of_the_devices() -> None:
    agent = Agent(pod("1"))
    assert agent.allocator.prefer(AllocationRequest(ALL, frozenset(), 2)).devices == ("GPU-0", "GPU-1")
    (read,) = agent.device_cache.readings
    assert agent.pick.known == [read.by_uuid]


def test_the_answer_is_recomputed_after_the_watch_catches_up_where_no_pod_matches() -> None:
    agent = Agent(later=(pod("1", assignment=["GPU-2"]),))
    decision = agent.allocator.prefer(AllocationRequest(ALL, frozenset(), 1))
    assert (decision.verdict, decision.devices) == (Verdict.ASSIGNED, ("GPU-2",))
    assert agent.pods.reads == 2


@pytest.mark.parametrize("known", [(), (pod("1", 3),)], ids=["no pod", "a pod of another size"])
def test_the_pods_are_read_once_where_the_watch_has_nothing_new(known: tuple[Pod, ...]) -> None:
    agent = Agent(*known)
    assert agent.allocator.prefer(AllocationRequest(ALL, frozenset(), 1)).verdict is Verdict.NO_MATCH
    assert agent.pods.reads == 1


def test_a_single_waiting_pod_does_not_wait_for_the_watch() -> None:
    agent = Agent(pod("1", assignment=["GPU-1"]), later=(pod("2", assignment=["GPU-2"]),))
    assert agent.allocator.prefer(AllocationRequest(ALL, frozenset(), 1)).devices == ("GPU-1",)
    assert (agent.pods.reads, agent.pods.later != ()) == (1, True)


def test_an_offered_device_of_another_pod_is_counted_once_per_answer() -> None:
    waits = pod("2", assignment=["GPU-2"])
    agent = Agent(pod("1", assignment=["GPU-0"]), later=(waits,), holdings=held(**{"1": "GPU-0 GPU-1"}))
    assert agent.allocator.prefer(AllocationRequest(ALL, frozenset(), 1)).devices == ("GPU-2",)
    assert agent.metric("busy_devices_available") == 2
