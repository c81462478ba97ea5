"""The state of each node and device, its holders, and which pod would be evicted next."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from booking.eviction.settings import EvictionSettings
from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.server.cluster_status.now import DeviceNow, NodeNow, Now, now_of
from booking.server.cluster_status.snapshot import take
from booking.server.cluster_status.viewer import Viewer
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.device_usage import DeviceUsage, NodeUsage, Squatter, encode_use
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.inventory import Device
from tests.fakes.objects import (
    A100,
    EPOCH,
    PodBuilder,
    a100,
    a6000,
    a_booking,
    a_lease,
    a_node,
    a_pod,
    shared_gpu,
)

HOUR: Final = timedelta(hours=1)
ALICE: Final = Principal(user="alice", name="alice")
BOB: Final = Principal(user="bob", name="bob")


class Cluster:
    """A cache of a cluster at ``EPOCH``."""

    def __init__(self, *devices: Device) -> None:
        """Args: devices: of node n0, whose agent has just renewed its Lease."""
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.cache.of(NODES).upsert(a_node("n0", *(devices or (a100(0), a100(1)))))
        self.cache.of(LEASES).upsert(a_lease("n0"))

    def run(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.cache.of(PODS).upsert(pod.obj)

    def now(self, who: Principal = ALICE, visibility: Visibility = "load") -> Now:
        snapshot = take(self.cache, self.clock, EvictionSettings())
        return now_of(snapshot, Viewer(who, visibility))

    @property
    def node(self) -> NodeNow:
        (found,) = self.now().nodes
        return found

    def device(self, index: int = 0) -> DeviceNow:
        return self.node.devices[index]


def holding(name: str = "train", *indices: int, user: str = "alice") -> PodBuilder:
    """A pod with these GPUs of n0, or with GPU 0."""
    devices = tuple(f"GPU-n0-{index}" for index in indices or (0,))
    return a_pod(name).of(user).asks(len(devices)).on("n0", {"main": devices})


def waiting(*indices: int, victims: tuple[str, ...] = ()) -> PodBuilder:
    """A pod of bob's for which these GPUs of n0 are kept, once these pods have left."""
    devices = tuple(f"GPU-n0-{index}" for index in indices)
    hold = Hold(node="n0", devices=devices, victims=victims, at=EPOCH)
    return a_pod("booked").of("bob").asks(len(devices)).with_annotation(names.HOLD, encode_hold(hold))


def unresponsive(cluster: Cluster) -> None:
    cluster.clock.advance(75)


def stopping(cluster: Cluster) -> None:
    cluster.cache.of(LEASES).upsert(a_lease("n0", version=2, stopping=True))


def cordoned(cluster: Cluster) -> None:
    node = a_node("n0", a100(0), a100(1), version=2)
    spec = msgspec.structs.replace(node.spec, unschedulable=True)
    cluster.cache.of(NODES).upsert(msgspec.structs.replace(node, spec=spec))


def unknown(cluster: Cluster) -> None:
    cluster.run(a_pod("whose").asks(2).on("n0"))


def unpublished(cluster: Cluster) -> None:
    cluster.cache.of(NODES).upsert(a_node("n0", version=2))


@pytest.mark.parametrize(
    ("happens", "state", "why"),
    [
        (lambda _: None, "ready", None),
        (unresponsive, "unresponsive", "The GPU agent of the node is unresponsive."),
        (stopping, "stopping", "The GPU agent of the node is stopping, or its kubelet does not know it."),
        (cordoned, "ready", "The node is cordoned."),
        (unknown, "ready", "Pods hold 2 devices, and it is not known which."),
    ],
    ids=["nothing", "unresponsive", "stopping", "cordoned", "holders of unknown devices"],
)
def test_a_node_is_shown_with_its_state_and_the_reason(
    happens: Callable[[Cluster], None], state: str, why: str | None
) -> None:
    cluster = Cluster()
    happens(cluster)
    assert (cluster.node.state, cluster.node.why) == (state, why)


def test_a_node_whose_agent_was_never_seen_is_unresponsive_with_that_reason() -> None:
    cluster = Cluster()
    cluster.cache.of(NODES).upsert(a_node("n1", a100(0, "n1")))
    _, found = cluster.now().nodes
    assert (found.node, found.state) == ("n1", "unresponsive")
    assert found.why == "The GPU agent of the node has not reported yet."


def test_a_node_without_gpus_and_without_an_agent_is_not_shown() -> None:
    cluster = Cluster()
    cluster.cache.of(NODES).upsert(a_node("control-plane"))
    assert [node.node for node in cluster.now().nodes] == ["n0"]


def test_a_node_whose_agent_has_published_nothing_is_shown_without_devices() -> None:
    cluster = Cluster()
    unpublished(cluster)
    assert (cluster.node.node, cluster.node.devices) == ("n0", ())


def test_nodes_are_ordered_by_name_and_devices_by_index() -> None:
    cluster = Cluster(a100(2), a6000(0), a100(1))
    cluster.cache.of(NODES).upsert(a_node("a9", a100(0, "a9")))
    first, second = cluster.now().nodes
    assert (first.node, second.node) == ("a9", "n0")
    assert [device.index for device in second.devices] == [0, 1, 2]


def test_a_device_that_no_pod_holds_is_free() -> None:
    device = Cluster().device()
    assert (device.state, device.why, device.pods) == ("free", None, ())
    assert (device.model, device.memory_mib, device.uuid) == (A100, 81920, "GPU-n0-0")


@pytest.mark.parametrize(
    ("reason", "why"),
    [("XID 79", "XID 79."), ("it is gone.", "It is gone."), (None, "The driver does not say why.")],
)
def test_an_unhealthy_device_is_shown_with_its_reason_even_while_a_pod_holds_it(
    reason: str | None, why: str
) -> None:
    cluster = Cluster(a100(0, health="unhealthy", reason=reason))
    assert (cluster.device().state, cluster.device().why) == ("unhealthy", why)
    cluster.run(holding())
    assert (cluster.device().state, cluster.device().why) == ("unhealthy", why)
    assert [pod.name for pod in cluster.device().pods] == ["train"]


def test_a_gpu_in_mig_mode_is_partitioned_and_each_part_is_shown() -> None:
    part = {"parent": "GPU-n0-0", "profile": "3g.40gb"}
    cluster = Cluster(a100(0), a100(1, **part), a100(2, **part))
    assert (cluster.device().state, cluster.device().why) == (
        "partitioned",
        "It is partitioned into MIG devices.",
    )
    assert [cluster.device(index).state for index in (1, 2)] == ["free", "free"]


def test_a_device_of_a_pod_that_a_booking_covers_is_booked_until_its_end() -> None:
    cluster = Cluster()
    cluster.cache.of(BOOKINGS).upsert(a_booking("b-1", start=EPOCH - HOUR, end=EPOCH + HOUR))
    cluster.run(holding())
    device = cluster.device()
    (holder,) = device.pods
    assert (device.state, device.why) == ("booked", None)
    assert (holder.holder_class, holder.booking, holder.until) == ("booked", "b-1", EPOCH + HOUR)


def test_a_device_of_a_pod_without_a_booking_is_opportunistic() -> None:
    cluster = Cluster()
    cluster.run(holding())
    device = cluster.device()
    (holder,) = device.pods
    assert (device.state, device.why) == ("opportunistic", None)
    assert (holder.namespace, holder.name, holder.user) == ("default", "train", "alice")
    assert (holder.holder_class, holder.booking, holder.until) == ("opportunistic", None, None)


def test_a_free_device_of_a_hold_shows_the_pod_that_it_is_held_for() -> None:
    cluster = Cluster()
    cluster.run(waiting(1))
    assert cluster.device(0).state == "free"
    kept = cluster.device(1)
    assert (kept.state, kept.why) == ("held", "It is kept for a booked pod that is about to start.")
    (shown,) = cluster.now(BOB).nodes[0].devices[1].pods
    assert (shown.name, shown.user) == ("booked", "bob")


def test_a_held_device_of_a_victim_is_shown_with_the_victim_until_it_has_left() -> None:
    cluster = Cluster()
    cluster.run(holding("train", 0, 1), waiting(0, victims=("uid-train",)))
    for index in (0, 1):
        device = cluster.device(index)
        assert (device.state, device.why) == ("opportunistic", "Its pod must leave for a booked one.")
        assert [pod.name for pod in device.pods] == ["train"]
    cluster.cache.of(PODS).remove(holding("train", 0, 1).at(2).obj)
    assert [device.state for device in cluster.node.devices] == ["held", "free"]


@pytest.mark.parametrize(
    ("who", "visibility", "is_named"),
    [
        (ALICE, "load", True),
        (BOB, "load", False),
        (BOB, "names", True),
        (Principal(user="bob", name="bob", is_administrator=True), "load", True),
    ],
    ids=["its owner", "another user", "another user, where names are shown", "an administrator"],
)
def test_other_users_see_that_a_device_is_held_but_not_by_whom(
    who: Principal, visibility: Visibility, *, is_named: bool
) -> None:
    cluster = Cluster()
    cluster.cache.of(BOOKINGS).upsert(a_booking("b-1", count=1, start=EPOCH - HOUR, end=EPOCH + HOUR))
    cluster.run(holding("train", 0), holding("more", 1).created(EPOCH))
    found = cluster.now(who, visibility)
    booked, other = (device.pods[0] for device in found.nodes[0].devices)
    assert {booked.holder_class, other.holder_class} == {"booked", "opportunistic"}
    for holder in (booked, other, *found.next):
        assert (holder.namespace is not None) == is_named
        assert (holder.name is not None) == is_named
        assert (holder.user is not None) == is_named
    assert [device.state for device in found.nodes[0].devices].count("booked") == 1
    until = {None, EPOCH + HOUR if is_named else None}
    assert {holder.booking for holder in (booked, other)} == {None, "b-1" if is_named else None}
    assert {holder.until for holder in (booked, other)} == until
    assert len(found.next) == 1


def test_use_is_shown_while_the_agent_is_alive() -> None:
    cluster = Cluster()
    measured = DeviceUsage(uuid="GPU-n0-0", utilisation=50, memory=2048, pods={"uid-train": 1024})
    use = NodeUsage(at=EPOCH, devices=(measured,), squatters=(Squatter(device="GPU-n0-1", pid=7),))
    cluster.run(holding())
    cluster.cache.of(LEASES).upsert(a_lease("n0", version=2, use=encode_use(use)))
    first, second = cluster.node.devices
    assert first.use
    assert (first.use.utilisation_percent, first.pods[0].memory_used_mib) == (50, 1024)
    assert (second.use, len(second.squatters)) == (None, 1)

    cluster.cache.of(LEASES).upsert(a_lease("n0", version=3, use=encode_use(use), stopping=True))
    first, second = cluster.node.devices
    assert (first.use, first.pods[0].memory_used_mib, second.squatters) == (None, None, ())


def test_the_pods_that_would_be_evicted_next_are_ranked_for_each_model() -> None:
    cluster = Cluster(a100(0), a100(1), a6000(2))
    cluster.run(holding("one", 0), holding("two", 1), holding("small", 2))
    assert [(one.name, one.model.split("-")[1], one.gpus, one.node) for one in cluster.now().next] == [
        ("one", "A100", 1, "n0"),
        ("two", "A100", 1, "n0"),
        ("small", "RTX", 1, "n0"),
    ]
    ranks = [one.why.rpartition(": ")[2] for one in cluster.now().next]
    assert ranks == ["the least.", "the second least.", "the least."]


@pytest.mark.parametrize("happens", [unresponsive, stopping], ids=["unresponsive", "stopping"])
def test_no_pod_would_be_evicted_where_no_booked_pod_could_be_placed(
    happens: Callable[[Cluster], None],
) -> None:
    cluster = Cluster()
    cluster.run(holding())
    assert [one.name for one in cluster.now().next] == ["train"]
    happens(cluster)
    assert cluster.now().next == ()


def test_a_victim_of_a_hold_is_not_listed_as_the_next_to_be_evicted() -> None:
    cluster = Cluster()
    cluster.run(holding("train", 0), holding("other", 1), waiting(0, victims=("uid-train",)))
    assert [one.name for one in cluster.now().next] == ["other"]


def test_the_instant_is_a_whole_second() -> None:
    cluster = Cluster()
    cluster.clock.advance(1.75)
    assert cluster.now().at == EPOCH + timedelta(seconds=1)


def sharing(name: str, user: str, **amounts: int) -> PodBuilder:
    return a_pod(name).of(user).shares(**amounts).on("n0", {"main": ("GPU-n0-0",)})


def test_a_gpu_that_is_shared_shows_what_all_have_of_what_it_offers_and_each_pods_part() -> None:
    cluster = Cluster(shared_gpu(0, memory=80_000), a100(1))
    cluster.run(sharing("a", "alice", memory=8_192, cores=30), sharing("b", "bob", percentage=20))
    device = cluster.device()
    assert device.shares
    assert (device.shares.pods, device.shares.memory_mib, device.shares.offered_mib) == (2, 24_192, 80_000)
    parts = {pod.name: pod.share for pod in device.pods}  # bob's name is hidden from alice
    assert {name: (one.memory_mib, one.compute_percent) for name, one in parts.items() if one} == {
        "a": (8_192, 30),
        None: (16_000, 0),
    }
    assert (device.state, device.standing) == ("opportunistic", "lent")


def test_a_gpu_that_one_pod_has_whole_is_not_in_shares() -> None:
    cluster = Cluster(shared_gpu(0))
    cluster.run(holding())
    assert (cluster.device().shares, cluster.device().pods[0].share) == (None, None)


def test_a_gpu_of_which_one_sharer_stays_is_in_use() -> None:
    cluster = Cluster(shared_gpu(0))
    cluster.run(sharing("a", "alice", memory=8_192), sharing("b", "bob", memory=8_192).of_a_daemon_set())
    assert cluster.device().standing == "in_use"
    (model,) = cluster.now().models
    assert (model.lent, model.in_use) == (0, 1)
