"""Where the kubelet chooses, people learn which GPU a pod really has."""

import msgspec
import pytest

from booking.eviction.settings import EvictionSettings
from booking.principals import Principal
from booking.server.cluster_status.now import now_of
from booking.server.cluster_status.snapshot import take
from booking.server.cluster_status.viewer import Viewer
from booking.server.cluster_status.why import why_of
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.device_usage import DeviceUsage, NodeUsage, encode_use
from cluster.objects.pods import ContainerStatus, DeviceStatus, Pod, ResourceStatus
from tests.fakes.objects import EPOCH, a100, a_lease, a_node, a_pod

ALICE = Viewer(Principal(user="alice", name="alice"), "load")
NUMBERS = ("n0-0", "n0-1")


def running(*given: str, health: str = "Healthy") -> Pod:
    """A pod with both GPUs of n0, whose kubelet says that it has given these."""
    pod = a_pod("train").of("alice").asks(2).on("n0", {"main": NUMBERS}).obj
    resources = tuple(DeviceStatus(resource_id=one, health=health) for one in given)
    reported = (ResourceStatus(name=names.GPU_RESOURCE, resources=resources),)
    statuses = (ContainerStatus(name="main", allocated_resources_status=reported),)
    return msgspec.structs.replace(
        pod, status=msgspec.structs.replace(pod.status, container_statuses=statuses)
    )


def seen(pod: Pod, use: NodeUsage | None = None) -> tuple[list[str | None], str]:
    """What is said of each GPU of n0, and why the pod has them."""
    clock = FakeClock(EPOCH)
    cache = ClusterCache(clock)
    numbered = (a100(index, uuid=uuid, numbered=True) for index, uuid in enumerate(NUMBERS))
    cache.of(NODES).upsert(a_node("n0", *numbered))
    cache.of(LEASES).upsert(a_lease("n0", use=encode_use(use) if use else None))
    cache.of(PODS).upsert(pod)
    snapshot = take(cache, clock, EvictionSettings())
    (node,) = now_of(snapshot, ALICE).nodes
    (why,) = (one for one in why_of(pod, snapshot, ALICE).because if one.startswith("Another device plugin"))
    return [device.why for device in node.devices], why


def test_the_kubelet_s_own_words_in_the_pod_s_status_are_passed_on() -> None:
    page, why = seen(running("GPU-b", "GPU-a"))
    assert page == ["The kubelet has given its pod GPU-a.", "The kubelet has given its pod GPU-b."]
    assert why.endswith("the kubelet has chosen GPU-a and GPU-b.")


def test_an_unhealthy_gpu_that_a_pod_has_is_named() -> None:
    page, _ = seen(running("GPU-a", "GPU-b", health="Unhealthy"))
    assert page[0] == "The kubelet has given its pod GPU-a, which it says is unhealthy."


@pytest.mark.parametrize("reported", [(), ("GPU-x", "GPU-y")], ids=["an older kubelet", "a newer one"])
def test_what_the_agent_has_read_in_the_kubelet_s_checkpoint_goes_before(reported: tuple[str, ...]) -> None:
    devices = tuple(
        DeviceUsage(uuid=number, real=real) for number, real in zip(NUMBERS, ("GPU-a", "GPU-b"), strict=True)
    )
    page, why = seen(running(*reported), NodeUsage(at=EPOCH, devices=devices))
    assert page == ["The kubelet has given its pod GPU-a.", "The kubelet has given its pod GPU-b."]
    assert why.endswith("the kubelet has chosen GPU-a and GPU-b.")


def test_nothing_is_guessed_where_nothing_is_reported() -> None:
    page, why = seen(running())
    assert page == [None, None]
    assert why.endswith("the kubelet has chosen.")
