"""Who uses more memory of a shared GPU than its share: as a metric, as Events."""

from pathlib import Path

import msgspec
import pytest

from cluster import event_reasons, names
from cluster.objects.device_usage import OVER_USED, OverUser, decode_use
from cluster.objects.inventory import Sharing
from cluster.objects.pods import Container, Pod, Resources
from cluster.objects.slots import slot_id
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.share_limits import share_limits
from deviceplugin.nvml.interface import GpuProcess
from tests.deviceplugin.pods import pod
from tests.deviceplugin.usage.node import GIB, OF_DAEMONS, UID_A, UID_B, MeasuredNode, busy, gpu

SHARED = names.SHARED_RESOURCE
FIRST, SECOND = slot_id("GPU-0", 0), slot_id("GPU-0", 1)
BOBS = {"device": "GPU-0", "index": "0", "namespace": "default", "pod": "bobs", "user": "", "booking": ""}


def container(name: str, **amounts: int) -> Container:
    keys = {"memory": names.GPU_MEMORY, "percentage": names.GPU_MEMORY_PERCENTAGE}
    limits: dict[str, str | int] = {SHARED: "1", **{keys[key]: str(count) for key, count in amounts.items()}}
    return Container(name=name, resources=Resources(limits=limits))


def sharing(uid: str, name: str, *app: Container, init: tuple[Container, ...] = ()) -> Pod:
    bare = pod(uid, app=app, init=init, phase="Running")
    return msgspec.structs.replace(bare, metadata=msgspec.structs.replace(bare.metadata, name=name))


def held(*places: tuple[str, str, str]) -> PodDevices:
    return PodDevices({}, {SHARED: {(uid, name): frozenset({slot}) for uid, name, slot in places}})


@pytest.fixture
def node(tmp_path: Path) -> MeasuredNode:
    """Alice's and Bob's pods share GPU-0, with 8 GiB each."""
    offer = Sharing(slots=16, memory=40960)
    shared = gpu(0)
    shared = msgspec.structs.replace(shared, published=msgspec.structs.replace(shared.published, share=offer))
    node = MeasuredNode(tmp_path, devices=(shared,))
    node.pods = (
        sharing(UID_A, "alices", container("main", memory=8192)),
        sharing(UID_B, "bobs", container("main", percentage=20)),
    )
    node.holdings = held((UID_A, "main", FIRST), (UID_B, "main", SECOND))
    node.run(7, uid=UID_A)
    node.run(8, uid=UID_B)
    return node


def test_a_pod_over_its_share_is_reported_at_once_until_it_fits_again(node: MeasuredNode) -> None:
    node.measured(GPU_0=busy(GpuProcess(7, 8 * GIB), GpuProcess(8, 9 * GIB)))
    sentence = (
        "Pod default/bobs uses 9216 MiB of GPU 0 (GPU-0), and its share is 8192 MiB."
        " Others on this GPU may find too little memory."
    )
    assert node.events_of(event_reasons.GPU_MEMORY_EXCEEDED) == [sentence]
    assert node.says("pod_memory_limit_bytes", **BOBS) == 8 * GIB
    assert node.says("pod_memory_bytes", **BOBS) == 9 * GIB
    assert node.events == [], "both hold the GPU"
    for used, events in ((10, 1), (8, 1), (11, 2)):
        node.measured(GPU_0=busy(GpuProcess(7, 8 * GIB), GpuProcess(8, used * GIB)))
        assert len(node.events_of(event_reasons.GPU_MEMORY_EXCEEDED)) == events


def test_the_lease_names_pods_over_their_shares_while_they_are(node: MeasuredNode) -> None:
    for used, named in (
        (9 * GIB, [OverUser(device="GPU-0", uid=UID_B, used=9216, limit=8192)]),
        (8 * GIB, []),
    ):
        node.clock.advance(10)
        node.measured(GPU_0=busy(GpuProcess(7, 8 * GIB), GpuProcess(8, used)))
        text = node.measurer.text() or ""
        assert list(decode_use(text).over_users) == named
        assert (OVER_USED in text) is bool(named)


def test_a_process_of_mps_s_daemons_is_no_squatter(node: MeasuredNode) -> None:
    node.run(9, uid=OF_DAEMONS, name="nvidia-cuda-mps")
    for _ in range(2):
        node.measured(GPU_0=busy(GpuProcess(9, GIB)))
    assert node.events_of(event_reasons.GPU_SQUATTED) == []


def test_the_shares_of_a_pod_s_containers_add_up_and_a_slot_taken_over_counts_once() -> None:
    device = msgspec.structs.replace(gpu(0).published, share=Sharing(slots=16, memory=40960))
    setup = container("setup", memory=3000)
    one = sharing("a", "one", container("main", memory=1000), container("side", memory=500), init=(setup,))
    holdings = held(("a", "setup", FIRST), ("a", "main", FIRST), ("a", "side", SECOND))
    assert share_limits((device,), holdings, (one,)) == {("GPU-0", "a"): 3500 << 20}
    assert share_limits((device,), None, (one,)) == {}
    assert share_limits((device,), held(("b", "main", FIRST)), (one,)) == {}
