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
from deviceplugin.usage.claimed import ClaimedPart, claimed_shares
from tests.deviceplugin.pods import pod
from tests.deviceplugin.usage.node import GIB, OF_DAEMONS, UID_A, UID_B, MeasuredNode, busy, gpu, owned

SHARED = names.SHARED_RESOURCE
UID_C = "cccccccc-0000-0000-0000-000000000000"
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


@pytest.fixture
def claims(node: MeasuredNode) -> MeasuredNode:
    """Alice's pod has 8 GiB of GPU-0 by a claim, Bob's pods 4 GiB together; none asks for it by limits."""
    node.holdings, node.pods = PodDevices({}), ()
    node.without_gpus = (
        owned(UID_A, "alices"),
        owned(UID_B, "bobs", user="bob"),
        owned(UID_C, "bobs-2", user="bob"),
    )
    node.claimed = (
        ClaimedPart("alices", "GPU-0", 8192, frozenset({UID_A})),
        ClaimedPart("bobs", "GPU-0", 4096, frozenset({UID_B, UID_C})),
    )
    node.run(9, uid=UID_C)
    return node


def test_pods_of_one_claim_have_its_share_together_and_each_of_them_is_named(claims: MeasuredNode) -> None:
    used = {7: 8, 8: 3, 9: 1}
    claims.measured(GPU_0=busy(*(GpuProcess(pid, count * GIB) for pid, count in used.items())))
    assert claims.events_of(event_reasons.GPU_MEMORY_EXCEEDED) == []
    for uid, user, name in ((8, "bob", "bobs"), (9, "bob", "bobs-2"), (7, "", "alices")):
        labels = {**BOBS, "pod": name, "user": user}
        assert claims.says("pod_memory_bytes", **labels) == used[uid] * GIB
        assert claims.says("pod_memory_limit_bytes", **labels) == (8 if uid == 7 else 4) * GIB
    claims.measured(GPU_0=busy(GpuProcess(8, 3 * GIB), GpuProcess(9, 2 * GIB)))
    (sentence,) = claims.events_of(event_reasons.GPU_MEMORY_EXCEEDED)
    assert sentence.startswith("Pod default/bobs and 1 more pod that has its claim use 5120 MiB of GPU 0")
    named = decode_use(claims.measurer.text() or "").over_users
    assert set(named) == {
        OverUser(device="GPU-0", uid=uid, used=5120, limit=4096, pods=2) for uid in (UID_B, UID_C)
    }
    assert claims.events == [], "no squatter has a GPU that claims have"


def test_a_claim_for_a_whole_gpu_has_holders_and_no_limit(claims: MeasuredNode) -> None:
    claims.claimed = (ClaimedPart("alices", "GPU-0", 0, frozenset({UID_A})),)
    claims.measured(GPU_0=busy(GpuProcess(7, 70 * GIB)))
    assert [one["pod"] for one in claims.series("device_holder")] == ["alices"]
    assert claims.series("pod_memory_limit_bytes") == []


def test_claims_with_a_pod_in_common_have_their_shares_together() -> None:
    parts = (
        ClaimedPart("one", "GPU-0", 1000, frozenset({"a", "b"})),
        ClaimedPart("two", "GPU-0", 500, frozenset({"b", "c"})),
        ClaimedPart("one", "GPU-1", 100, frozenset({"a", "b"})),
        ClaimedPart("idle", "GPU-0", 100),
    )
    found = claimed_shares(parts)
    both = {("GPU-0", uid): 1500 << 20 for uid in "abc"}
    assert found.limits == both | {("GPU-1", uid): 100 << 20 for uid in "ab"}
    assert found.together["GPU-0", "a"] == frozenset("abc")
    assert found.together["GPU-1", "a"] == frozenset("ab")
