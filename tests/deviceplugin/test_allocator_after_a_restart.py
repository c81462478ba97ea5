"""An agent that restarts between two calls of the kubelet goes on from the kubelet's checkpoint and pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import AllocationRequest, Verdict
from deviceplugin.allocation.prestart import StartVerdict
from deviceplugin.allocator import Allocator, AllocatorSources
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.kubelet.pod_source import PodsSnapshot
from deviceplugin.metrics import AgentMetrics
from tests.deviceplugin.agents import devices
from tests.deviceplugin.pods import held, pod

ALL = frozenset(device.uuid for device in devices(4))
ONE = AllocationRequest(ALL, frozenset(), 1)


@dataclass
class Node:
    """What outlives the agent: the kubelet's checkpoint and its pods."""

    pods: tuple[Pod, ...] | None = ()
    """None: they are unavailable."""
    holdings: PodDevices | None = field(default_factory=PodDevices)
    """None: the checkpoint cannot be read."""
    replaced: frozenset[str] = frozenset()
    advertised: AdvertisedDevices = field(
        default_factory=lambda: AdvertisedDevices(devices(4), reported=True)
    )

    def read(self) -> PodDevices:
        """The checkpoint."""
        if self.holdings is None:
            raise CheckpointError("it is being written")
        return self.holdings

    def for_admission(self, *, in_flight: bool) -> PodsSnapshot:
        """The pods that the kubelet knows."""
        del in_flight
        return PodsSnapshot(self.pods, replaced=self.replaced)

    def admitted(self, uid: str) -> None:
        """There is no list."""

    def forget_admissions(self) -> None:
        """Nor of this."""

    def refused(self) -> None:
        """There is none."""

    def caught_up(self) -> bool:
        """There is no watch."""
        return False

    def at_once(self) -> tuple[Pod, ...] | None:
        """The same pods."""
        return self.pods

    def of(self, uids: Iterable[str]) -> Mapping[str, Pod] | None:
        """Those of them."""
        wanted = set(uids)
        return (
            None if self.pods is None else {p.metadata.uid: p for p in self.pods if p.metadata.uid in wanted}
        )

    def agent(self, registry: CollectorRegistry | None = None) -> Allocator:
        """An agent that has just started here."""
        device_cache = DeviceCache()
        device_cache.put(self.advertised)
        sources = AllocatorSources(
            resource=names.GPU_RESOURCE, device_cache=device_cache, checkpoint=self, pods=self
        )
        return Allocator(sources, metrics=AgentMetrics(registry or CollectorRegistry()), clock=FakeClock())


def test_the_next_agent_allocates_what_the_former_one_proposed() -> None:
    node = Node((pod("1", assignment=["GPU-2"]), pod("a", phase="Running")), held(a="GPU-0"))
    proposed = node.agent().prefer(ONE)
    assert (proposed.verdict, proposed.devices) == (Verdict.ASSIGNED, ("GPU-2",))
    assert node.agent().held(frozenset(proposed.devices)) is None


def test_the_next_agent_refuses_devices_that_another_pod_got_since() -> None:
    node, registry = Node((pod("1", assignment=["GPU-2"]), pod("a"))), CollectorRegistry()
    assert node.agent().prefer(ONE).verdict is Verdict.AMBIGUOUS
    node.holdings = held(a="GPU-0")
    with capture_logs():
        message = node.agent(registry).held(frozenset({"GPU-0"}))
    assert message is not None
    assert "GPU-0 (held by default/pod-a)" in message
    counted = f"{names.METRICS_PREFIX}_agent_allocations_total"
    assert registry.get_sample_value(counted, {"result": "refused"}) == 1


def test_a_new_agent_presumes_no_pod_ended_that_it_has_not_seen_with_devices() -> None:
    """A pod that had devices and whose name was reused is gone; one that never had any may still come."""
    node = Node(
        (pod("old", assignment=["GPU-0"]), pod("new", assignment=["GPU-1"])), replaced=frozenset({"old"})
    )
    lasting = node.agent()
    node.holdings = held(old="GPU-0")
    assert lasting.prefer(ONE).devices == ("GPU-1",)
    node.holdings = PodDevices()
    assert (lasting.prefer(ONE).verdict, lasting.prefer(ONE).devices) == (Verdict.ASSIGNED, ("GPU-1",))
    fresh = node.agent().prefer(ONE)
    assert (fresh.verdict, fresh.devices) == (Verdict.AMBIGUOUS, ())


@pytest.mark.parametrize(
    ("pods", "holdings", "verdict", "opens"),
    [
        ((pod("1", assignment=["GPU-2"]),), held(**{"1": "GPU-2"}), StartVerdict.AS_ASSIGNED, True),
        ((pod("1", assignment=["GPU-1"]),), held(**{"1": "GPU-2"}), StartVerdict.OTHER_DEVICES, True),
        ((), held(**{"1": "GPU-2"}), StartVerdict.UNASSIGNED, True),
        (None, held(**{"1": "GPU-2"}), StartVerdict.UNASSIGNED, True),
        (None, None, StartVerdict.UNCHECKED, True),
        (None, held(a="GPU-2", b="GPU-2"), StartVerdict.TWO_PODS, False),
        ((pod("a", 2),), held(a="GPU-2 GPU-3"), StartVerdict.UNKNOWN_POD, False),
    ],
    ids=[
        "as assigned",
        "another device",
        "the pod is not known yet",
        "no pods can be read",
        "nothing can be read",
        "two pods have it",
        "the pod of the call is not in the checkpoint",
    ],
)
def test_the_gate_of_a_new_agent_decides_by_the_kubelet_s_checkpoint_and_the_pods(
    pods: tuple[Pod, ...] | None, holdings: PodDevices | None, verdict: StartVerdict, *, opens: bool
) -> None:
    registry = CollectorRegistry()
    with capture_logs():
        decision = Node(pods, holdings).agent(registry).gate(frozenset({"GPU-2"}))
    assert (decision.gate, decision.is_open) == (verdict, opens)
    counted = f"{names.METRICS_PREFIX}_agent_container_starts_total"
    assert registry.get_sample_value(counted, {"gate": verdict}) == 1


@pytest.mark.parametrize("is_cordoned", [True, False])
def test_a_container_restarts_on_a_cordoned_gpu_but_on_no_other_unhealthy_one(*, is_cordoned: bool) -> None:
    unhealthy = tuple(
        msgspec.structs.replace(each, health="unhealthy", reason="out of use") for each in devices(4)
    )
    cordoned = frozenset({"GPU-2"}) if is_cordoned else frozenset[str]()
    node = Node((pod("1", assignment=["GPU-2"]),), held(**{"1": "GPU-2"}))
    node.advertised = AdvertisedDevices(unhealthy, cordoned=cordoned, reported=True)
    with capture_logs():
        assert node.agent().gate(frozenset({"GPU-2"})).is_open is is_cordoned
