"""Which pods hold the devices of each model, as plans for booked pods see it: read again after changes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from booking.eviction.holder import Holder
from booking.eviction.holder_cache import (
    NEVER_LATER,
    HolderCache,
    ModelHolders,
    NodeHolders,
)
from booking.eviction.settings import EvictionSettings
from booking.eviction.victims import LostWork
from booking.server.cluster_status import StatusSnapshot
from cluster import names
from cluster.decide.eviction.costs import Work, microseconds
from cluster.decide.eviction.victim_selection import Victim
from cluster.decide.protection import HANGS_AFTER
from cluster.kube.resources import BOOKINGS, NODES, PODS
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace
from tests.booking.eviction.fake_cluster import HOUR, FakeCluster, holding, started
from tests.fakes.objects import A100, A6000, EPOCH, a100, a_booking, a_node, a_pod

SLICE = f"{A100}-MIG-1g.10gb"
MICROSECOND = timedelta(microseconds=1)


def read(cluster: FakeCluster, node: str = "n0", model: str = A100) -> ModelHolders:
    """What there is of a model, read by a cache that knows nothing yet."""
    return HolderCache().at(cluster.now())[node].by_model[model]


def names_of(found: ModelHolders) -> list[str]:
    return [holder.uid.removeprefix("uid-") for holder in found.holders]


def evictable(found: ModelHolders) -> list[str]:
    return [holder.uid.removeprefix("uid-") for holder in found.holders if holder.evictable]


# --- what is read of a node ---------------------------------------------------------------------------
def test_each_device_is_free_or_has_a_holder() -> None:
    cluster = FakeCluster()
    cluster.run("one", "n0", 1, worked=2, evictions=3)
    work = Work(start=microseconds(EPOCH - 2 * HOUR), evictions=3)
    holder = Holder("uid-one", ("GPU-n0-1",), gpus=1, work=work, leaves=False, evictable=True)
    assert read(cluster) == ModelHolders(("GPU-n0-0",), (holder,), idle=1, latest=(work.start or 0,))
    assert read(cluster, "n1") == ModelHolders(("GPU-n1-0", "GPU-n1-1"), idle=2)
    assert read(cluster, model=A6000) == ModelHolders(("GPU-n0-2",), idle=1)


def test_a_pod_with_devices_of_two_models_holds_some_of_each_and_counts_all_of_them() -> None:
    cluster = FakeCluster()
    cluster.run("both", "n0", 0, 1, 2)
    found = {model: read(cluster, model=model).holders for model in (A100, A6000)}
    assert [holder.devices for holder in found[A100]] == [("GPU-n0-0", "GPU-n0-1")]
    assert [holder.devices for holder in found[A6000]] == [("GPU-n0-2",)]
    assert [holder.gpus for some in found.values() for holder in some] == [3, 3]


def test_an_unhealthy_device_counts_neither_as_free_nor_as_held() -> None:
    cluster = FakeCluster()
    cluster.cache.of(NODES).upsert(
        a_node("n0", a100(0, health="unhealthy"), a100(1, health="unhealthy"), a100(2))
    )
    cluster.run("unhealthy", "n0", 0)
    assert read(cluster) == ModelHolders(("GPU-n0-2",), idle=1)


def test_l1_a_device_that_two_pods_report_to_hold_counts_neither_as_free_nor_as_held() -> None:
    cluster = FakeCluster()
    cluster.run("first", "n0", 0)
    cluster.run("second", "n0", 0, 1)
    found = read(cluster)
    assert found.free == ()
    assert [(holder.uid, holder.devices) for holder in found.holders] == [("uid-second", ("GPU-n0-1",))]


def test_a_device_whose_holder_is_not_among_the_pods_counts_neither_as_free_nor_as_held() -> None:
    cluster = FakeCluster()
    cluster.run("forgotten", "n0", 0)
    found = HolderCache().at(replace(cluster.now(), pods={}))["n0"].by_model[A100]
    assert found == ModelHolders(("GPU-n0-1",), idle=1)


def test_l6_nothing_is_planned_on_a_node_with_a_pod_whose_whole_gpus_are_unknown() -> None:
    cluster = FakeCluster()
    cluster.cache.of(PODS).upsert(a_pod("vague").of("alice").asks(1).on("n0").obj)
    found = HolderCache().at(cluster.now())
    assert (found["n0"].by_model, set(found["n1"].by_model)) == ({}, {A100, A6000})


def test_unknown_mig_devices_do_not_prevent_plans_for_whole_gpus() -> None:
    cluster = FakeCluster()
    resource = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"
    cluster.cache.of(PODS).upsert(a_pod("slice").of("alice").asks(1, resource=resource).on("n0").obj)
    assert read(cluster).free == ("GPU-n0-0", "GPU-n0-1")


def test_l6_nothing_is_planned_on_a_node_whose_annotations_are_unreadable() -> None:
    cluster = FakeCluster()
    cluster.cache.of(NODES).upsert(a_node("n0", a100(0), a100(1), drift="{", version=2))
    assert HolderCache().at(cluster.now())["n0"].by_model == {}


# --- which pods may be evicted, and which leave --------------------------------------------------------
def test_l2_a_booked_pod_is_not_evictable_from_the_start_of_its_booking_to_its_end() -> None:
    cluster = FakeCluster()
    cluster.run("one", "n0", 0)
    cluster.cache.of(BOOKINGS).upsert(a_booking(start=EPOCH + HOUR, end=EPOCH + 2 * HOUR))
    found = []
    for passed in (3599, 1, 3599, 1):
        cluster.clock.advance(passed)
        found.append(evictable(read(cluster)))
    assert found == [["one"], [], [], ["one"]]


def test_l2_a_pod_that_maia_has_granted_its_gpu_is_evictable_when_the_grant_ends() -> None:
    cluster, terms = FakeCluster(), EvictionSettings(maia=True)
    until = (EPOCH + HOUR).isoformat()
    cluster.cache.of(PODS).upsert(holding("one", "n0", 0).with_annotation(names.TERMINATE_AT, until).obj)
    cache = HolderCache()
    for passed, expected in ((3599, []), (1, ["one"])):
        cluster.clock.advance(passed)
        assert evictable(cache.at(cluster.now(terms))["n0"].by_model[A100]) == expected


def test_a_terminating_pod_counts_as_leaving_until_it_hangs_and_is_never_a_victim() -> None:
    cluster = FakeCluster()
    cluster.cache.of(PODS).upsert(holding("leaving", "n0", 0).terminating().obj)
    cluster.clock.advance(HANGS_AFTER.total_seconds() - 1)
    (leaving,) = read(cluster).holders
    assert (leaving.leaves, leaving.evictable, read(cluster).idle) == (True, False, 2)
    cluster.clock.advance(1)
    (hangs,) = read(cluster).holders
    assert (hangs.leaves, hangs.evictable, read(cluster).idle) == (False, False, 1)


def test_each_device_that_an_eviction_frees_has_the_time_of_the_last_saved_work() -> None:
    cluster = FakeCluster()
    cluster.cache.of(NODES).upsert(a_node("n0", *(a100(index) for index in range(8)), version=2))
    cluster.run("old", "n0", 0, worked=9)
    cluster.cache.of(PODS).upsert(holding("unstarted", "n0", 1).obj)
    cluster.run("young", "n0", 2, 3)
    cluster.cache.of(PODS).upsert(started(holding("going", "n0", 4).terminating(), EPOCH))
    cluster.cache.of(PODS).upsert(started(holding("static", "n0", 5).of_a_daemon_set(), EPOCH))
    old, young = (microseconds(EPOCH - hours * HOUR) for hours in (9, 1))
    assert read(cluster).latest == (NEVER_LATER, young, young, old)


def test_a_victim_costs_what_all_its_gpus_lose_even_if_only_some_are_needed() -> None:
    work = Work(start=1_000, checkpoint=3_000, evictions=2)
    holder = Holder("uid-one", ("a", "b"), gpus=5, work=work, leaves=False, evictable=True)
    assert LostWork(now=10_000, restart=500).victim(holder, ("b",)) == Victim(
        uid="uid-one", devices=("b",), cost=5 * (7_000 + 500), since=1_000, evictions=2
    )


# --- some of the devices -------------------------------------------------------------------------------
def test_a_subset_of_the_devices_has_its_holders_and_the_gpus_that_they_free() -> None:
    def a_holder(uid: str, *devices: str, start: int, leaves: bool = False) -> Holder:
        return Holder(uid, devices, len(devices), Work(start=start), leaves=leaves, evictable=not leaves)

    both, other = a_holder("both", "b", "c", start=1), a_holder("other", "d", start=5)
    leaving = a_holder("leaving", "e", "f", start=7, leaves=True)
    everything = ModelHolders(("a", "g"), (both, other, leaving), idle=4, latest=(5, 1, 1))
    assert everything.only(frozenset("aceg")) == ModelHolders(
        ("a", "g"),
        (
            msgspec.structs.replace(both, devices=("c",)),
            msgspec.structs.replace(leaving, devices=("e",)),
        ),
        idle=3,
        latest=(1,),
    )
    assert everything.only(frozenset("abcdefg")) == everything
    assert everything.only(frozenset()) == ModelHolders()


# --- what is read again --------------------------------------------------------------------------------
def two_used_nodes() -> FakeCluster:
    """Alice runs on both nodes, without a booking."""
    cluster = FakeCluster()
    cluster.run("one", "n0", 0)
    cluster.run("two", "n1", 0)
    return cluster


def after(
    before: StatusSnapshot, now: StatusSnapshot
) -> tuple[dict[str, NodeHolders], dict[str, NodeHolders]]:
    """The holders of each node at one instant, and then at another, by one cache."""
    cache = HolderCache()
    then = dict(cache.at(before))
    models_of(then)
    return then, dict(cache.at(now))


def models_of(found: Mapping[str, NodeHolders]) -> list[Mapping[str, ModelHolders]]:
    """The holders of each node, which are read now."""
    return [node_holders.by_model for node_holders in found.values()]


def read_again(before: StatusSnapshot, now: StatusSnapshot) -> list[str]:
    """The nodes that were read again; all are as an empty cache reads them."""
    then, found = after(before, now)
    afresh = HolderCache().at(now)
    assert (found, models_of(found)) == (afresh, models_of(afresh))
    return [name for name, holders in found.items() if holders is not then.get(name)]


def test_without_changes_nothing_is_read_again_however_late_it_is() -> None:
    cluster = two_used_nodes()
    before = cluster.now()
    cluster.clock.advance(86_400)
    assert read_again(before, cluster.now()) == []


def test_a_node_whose_holders_change_is_read_again() -> None:
    cluster = two_used_nodes()
    before = cluster.now()
    cluster.run("three", "n1", 1)
    assert read_again(before, cluster.now()) == ["n1"]


@pytest.mark.parametrize("uid", ["uid-two", "uid-three"])
def test_a_node_is_read_again_when_the_object_of_one_of_its_pods_is_replaced(uid: str) -> None:
    cluster = two_used_nodes()
    cluster.run("three", "n1", 1)
    before = cluster.now()
    pod = msgspec.structs.replace(before.pods[uid])
    assert read_again(before, replace(before, pods={**before.pods, uid: pod})) == ["n1"]


def test_a_node_is_read_again_when_its_holder_is_no_longer_known_and_when_it_is_known_again() -> None:
    before = two_used_nodes().now()
    without = replace(before, pods={"uid-one": before.pods["uid-one"]})
    then, found = after(before, without)
    assert names_of(then["n1"].by_model[A100]) == ["two"]
    assert names_of(found["n1"].by_model[A100]) == []
    assert read_again(before, without) == ["n1"]
    assert read_again(without, before) == ["n1"]
    assert read_again(without, replace(without, pods=dict(without.pods))) == []


def test_a_node_is_read_again_when_its_pod_becomes_booked_and_when_it_no_longer_is() -> None:
    free, booking = two_used_nodes().now(), a_booking()
    booked = replace(free, cover={"uid-one": booking, "uid-elsewhere": booking})
    assert read_again(free, booked) == ["n0"]
    assert read_again(booked, free) == ["n0"]
    assert read_again(booked, replace(free, cover={"uid-elsewhere": booking})) == ["n0"]


def test_a_node_is_not_read_again_when_its_booked_pods_are_covered_by_another_booking() -> None:
    free = two_used_nodes().now()
    first, second = (replace(free, cover={"uid-one": a_booking(name)}) for name in ("b-1", "b-2"))
    assert read_again(first, second) == []


def with_namespace(snapshot: StatusSnapshot, **protected: bool) -> StatusSnapshot:
    """The snapshot with these namespaces protected or not by administrators."""
    namespaces = {
        name: Namespace(metadata=Meta(name=name, annotations={names.NEVER_EVICT: str(value)}))
        for name, value in protected.items()
    }
    return replace(snapshot, namespaces=namespaces)


def test_l2_everything_is_read_again_when_a_namespace_is_protected_and_when_it_no_longer_is() -> None:
    free = two_used_nodes().now()
    protected = with_namespace(free, default=True)
    then, found = after(free, protected)
    assert evictable(then["n0"].by_model[A100]) == ["one"]
    assert evictable(found["n0"].by_model[A100]) == []
    assert read_again(free, protected) == read_again(protected, free) == ["n0", "n1"]
    assert read_again(protected, with_namespace(free, default=False)) == ["n0", "n1"]


def test_nothing_is_read_again_when_namespaces_change_and_the_same_are_protected() -> None:
    free = two_used_nodes().now()
    assert read_again(free, with_namespace(free, default=False)) == []
    assert read_again(with_namespace(free, vision=True), with_namespace(free, vision=True, new=False)) == []


@pytest.mark.parametrize(
    ("terms", "expected"),
    [(EvictionSettings(), []), (EvictionSettings(namespace="default"), ["n0", "n1"])],
    ids=["the same", "others"],
)
def test_everything_is_read_again_when_the_relevant_settings_change(
    terms: EvictionSettings, expected: list[str]
) -> None:
    before = two_used_nodes().now()
    assert read_again(before, replace(before, terms=terms)) == expected


# --- what changes with time alone ----------------------------------------------------------------------
def terminating(cluster: FakeCluster) -> None:
    cluster.cache.of(PODS).upsert(holding("one", "n0", 0).terminating().obj)


def granted(cluster: FakeCluster, *, hours: float = 1) -> None:
    until = (EPOCH + hours * HOUR).isoformat()
    cluster.cache.of(PODS).upsert(holding("one", "n0", 0).with_annotation(names.TERMINATE_AT, until).obj)


@pytest.mark.parametrize(
    ("happens", "after"), [(terminating, HANGS_AFTER), (granted, HOUR)], ids=["hangs", "grant ends"]
)
def test_a_node_is_read_again_at_the_instant_at_which_its_pod_counts_differently(
    happens: Callable[[FakeCluster], None], after: timedelta
) -> None:
    cluster = two_used_nodes()
    happens(cluster)
    before = cluster.now(EvictionSettings(maia=True))
    assert HolderCache().at(before)["n0"].until == EPOCH + after
    just_before, then = (replace(before, now=EPOCH + later) for later in (after - MICROSECOND, after))
    assert read_again(before, just_before) == []
    assert read_again(before, then) == ["n0"]
    assert HolderCache().at(then)["n0"].until is None
    assert read_again(then, replace(then, now=then.now + HOUR)) == []


def test_the_ends_of_maias_grants_matter_only_where_grants_count() -> None:
    cluster = two_used_nodes()
    granted(cluster)
    assert HolderCache().at(cluster.now())["n0"].until is None


def test_mig_devices_are_read_by_their_model_whatever_their_resource() -> None:
    whole = a100(0)
    parts = [a100(0, uuid=f"MIG-{n}", model=SLICE, parent=whole.uuid, profile="1g.10gb") for n in (1, 2)]
    cluster = FakeCluster(n0=(whole, *parts, a100(1)))
    pod = a_pod("one").asks(1, resource="nvidia.com/mig-1g.10gb")
    cluster.cache.of(PODS).upsert(pod.on("n0", {"main": ("MIG-1",)}).obj)

    found = read(cluster, model=SLICE)

    assert (found.free, names_of(found), evictable(found)) == (("MIG-2",), ["one"], ["one"])
    assert read(cluster).free == ("GPU-n0-1",)


def test_l6_an_unknown_device_closes_the_models_of_its_resource_alone() -> None:
    whole = a100(0)
    part = a100(0, uuid="MIG-1", model=SLICE, parent=whole.uuid, profile="1g.10gb")
    cluster = FakeCluster(n0=(whole, part, a100(1)))
    cluster.cache.of(PODS).upsert(a_pod("one").asks(1, resource="nvidia.com/mig-1g.10gb").on("n0").obj)

    assert HolderCache().at(cluster.now())["n0"].by_model.keys() == {A100}
