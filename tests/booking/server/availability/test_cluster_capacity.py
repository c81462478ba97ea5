"""What a cluster can give to bookings at one instant, and which devices only later (laws L5 and L6)."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from booking.eviction.settings import EvictionSettings
from booking.server.availability.cluster_capacity import PAUSE, supply
from booking.server.capacity.capacity import Capacity, Grant
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.booking_plan.supply import SupplySnapshot
from cluster.fake.clock import FakeClock
from cluster.kube.resources import NODES, PODS
from cluster.objects.inventory import Device
from tests.fakes.objects import (
    A100,
    A6000,
    EPOCH,
    PodBuilder,
    a100,
    a6000,
    a_booking,
    a_node,
    a_pod,
    shared_gpu,
)

HOUR: Final = timedelta(hours=1)
MICROSECOND: Final = timedelta(microseconds=1)
WITH_MAIA: Final = EvictionSettings(maia=True)
UNTIL: Final = EPOCH + HOUR


def an_instant(*pods: PodBuilder, **nodes: tuple[Device, ...]) -> SupplySnapshot:
    """These pods on two nodes with two A100 each, of which n1 has an A6000 too; or on other nodes."""
    there = nodes or {"n0": (a100(0), a100(1)), "n1": (a100(0, "n1"), a100(1, "n1"), a6000(2, "n1"))}
    cache = ClusterCache(FakeClock(EPOCH))
    cache.of(NODES).replace([a_node(name, *devices) for name, devices in there.items()])
    for pod in pods:
        cache.of(PODS).upsert(pod.obj)
    return cache.supply_snapshot(EPOCH, {})


def holding(name: str, node: str, *indices: int) -> PodBuilder:
    devices = tuple(f"GPU-{node}-{index}" for index in indices)
    return a_pod(name).of("alice").asks(len(devices)).on(node, {"main": devices})


def granted(pod: PodBuilder) -> PodBuilder:
    """MAIA has granted it its devices for an hour."""
    return pod.with_annotation(names.TERMINATE_AT, UNTIL.isoformat())


def grants(instant: SupplySnapshot, terms: EvictionSettings = WITH_MAIA) -> dict[str, tuple[Grant, ...]]:
    return dict(supply(instant, terms).grants)


def test_the_devices_of_every_model_are_counted_node_by_node() -> None:
    devices = {A100: {"n0": 2, "n1": 2}, A6000: {"n1": 1}}
    assert supply(an_instant(), EvictionSettings()) == Capacity(
        devices, resources=dict.fromkeys(devices, names.GPU_RESOURCE)
    )


def test_gpus_of_another_plugin_are_not_booked_in_shares_while_they_are_open_for_some_either() -> None:
    number = shared_gpu(0, uuid="n0-0", numbered=True)
    open_now = (
        a_pod("r").asks(1).with_annotation(names.RESERVES, "n0-0").with_annotation(names.OPENED, "GPU-x")
    )
    instant = an_instant(open_now.on("n0", {"main": ("n0-0",)}), n0=(number,), n1=(shared_gpu(0, "n1"),))
    assert instant.views["n0"].opened
    assert supply(instant, EvictionSettings()).memories == {}


def test_a_model_is_requested_under_the_resource_that_most_nodes_have_for_it() -> None:
    def cut(node: str, **more: str) -> tuple[Device, ...]:
        whole = a100(0, node)
        part = a100(0, uuid=f"MIG-{node}", model="SLICE", parent=whole.uuid, profile="1g.10gb", **more)
        return whole, part

    mixed = "nvidia.com/mig-1g.10gb"
    instant = an_instant(n0=cut("n0", resource=names.GPU_RESOURCE), n1=cut("n1"), n2=cut("n2"))
    assert supply(instant, EvictionSettings()).resources == {"SLICE": mixed}
    assert supply(instant, EvictionSettings()).devices == {"SLICE": {"n0": 1, "n1": 1, "n2": 1}}


def test_the_nodes_are_ordered_by_name() -> None:
    held = [granted(holding(f"p-{name}", name, 0)) for name in ("n2", "n0", "n1")]
    there = {name: (a100(0, name),) for name in ("n2", "n0", "n1")}
    instant = replace(an_instant(*held, **there), quiet=frozenset(there))
    found = supply(instant, WITH_MAIA)
    assert list(found.devices[A100]) == ["n0", "n1", "n2"]
    assert [grant.node for grant in found.grants[A100]] == ["n0", "n1", "n2"]
    assert [pause.node for pause in found.pauses[A100]] == ["n0", "n1", "n2"]


def test_a_model_whose_devices_are_all_unhealthy_is_known_and_has_none() -> None:
    instant = an_instant(n0=(a100(0, health="unhealthy"),))
    assert supply(instant, EvictionSettings()) == Capacity(
        {A100: {"n0": 0}}, resources={A100: names.GPU_RESOURCE}
    )


def test_a_cluster_without_nodes_has_nothing() -> None:
    instant = replace(an_instant(), views={}, quiet=frozenset({"n0"}))
    assert supply(instant, WITH_MAIA) == Capacity()


def test_the_pods_of_a_booking_are_reported_for_each_of_its_nodes() -> None:
    pods = [holding("a", "n0", 0, 1), holding("b", "n1", 0), holding("c", "n1", 1), holding("d", "n1", 2)]
    one, two = a_booking("b-1"), a_booking("b-2")
    cover = {"uid-a": one, "uid-b": one, "uid-c": one, "uid-d": two}
    found = supply(replace(an_instant(*pods), cover=cover), EvictionSettings())
    assert found.pins == {"b-1": {"n0": 2, "n1": 2}, "b-2": {"n1": 1}}


# --- what MAIA has granted -----------------------------------------------------------------------------
def test_each_device_that_maia_has_granted_is_unavailable_until_the_grant_ends() -> None:
    instant = an_instant(holding("other", "n1", 1), granted(holding("pair", "n1", 0, 2)))
    assert grants(instant) == {A100: (Grant("n1", 1, UNTIL),), A6000: (Grant("n1", 1, UNTIL),)}
    assert grants(an_instant(granted(holding("pair", "n0", 0, 1)))) == {A100: (Grant("n0", 1, UNTIL),) * 2}


def test_a_grant_of_maia_is_ignored_where_maia_is_not_honoured() -> None:
    assert grants(an_instant(granted(holding("one", "n0", 0))), EvictionSettings()) == {}


def test_a_grant_of_maia_counts_until_its_last_microsecond() -> None:
    instant = an_instant(granted(holding("one", "n0", 0)))
    assert grants(replace(instant, now=UNTIL - MICROSECOND)) == {A100: (Grant("n0", 1, UNTIL),)}
    assert grants(replace(instant, now=UNTIL)) == {}


def test_a_granted_device_of_a_covered_pod_is_available() -> None:
    instant = an_instant(granted(holding("one", "n0", 0)), granted(holding("two", "n1", 0)))
    assert grants(replace(instant, cover={"uid-one": a_booking()})) == {A100: (Grant("n1", 1, UNTIL),)}


def test_an_unknown_pod_makes_its_devices_unavailable_and_its_grant_is_not_added() -> None:
    instant = replace(an_instant(granted(holding("one", "n0", 0))), pods={})
    found = supply(instant, WITH_MAIA)
    assert (found.grants, found.devices[A100]) == ({}, {"n0": 1, "n1": 2})


def test_a_granted_device_that_is_unavailable_anyway_is_not_taken_twice() -> None:
    instant = an_instant(granted(holding("one", "n0", 0, 1)), n0=(a100(0, health="unhealthy"), a100(1)))
    found = supply(instant, WITH_MAIA)
    assert (found.devices, found.grants) == ({A100: {"n0": 1}}, {A100: (Grant("n0", 1, UNTIL),)})


# --- nodes whose agent is unresponsive -------------------------------------------------------------------
def test_l6_no_new_booking_can_start_on_an_unresponsive_node_for_a_while() -> None:
    instant = replace(an_instant(), quiet=frozenset({"n1"}))
    then = EPOCH + PAUSE
    found = supply(instant, EvictionSettings())
    assert found.pauses == {A100: (Grant("n1", 2, then),), A6000: (Grant("n1", 1, then),)}
    assert found.devices == {A100: {"n0": 2, "n1": 2}, A6000: {"n1": 1}}


def test_a_machine_has_a_quarter_of_an_hour_to_reboot() -> None:
    assert timedelta(minutes=15) == PAUSE


@pytest.mark.parametrize(
    ("indices", "left"),
    [((0,), {A100: 1, A6000: 1}), ((0, 1), {A6000: 1}), ((2,), {A100: 2}), ((0, 1, 2), {})],
    ids=str,
)
def test_booked_pods_keep_their_devices_of_an_unresponsive_node(
    indices: tuple[int, ...], left: dict[str, int]
) -> None:
    instant = an_instant(holding("mine", "n1", *indices), holding("elsewhere", "n0", 0))
    cover = {"uid-mine": a_booking(), "uid-elsewhere": a_booking()}
    instant = replace(instant, cover=cover, quiet=frozenset({"n1"}))
    found = supply(instant, EvictionSettings()).pauses
    assert found == {model: (Grant("n1", count, EPOCH + PAUSE),) for model, count in left.items()}


def test_devices_of_pods_without_a_booking_on_an_unresponsive_node_cannot_be_booked() -> None:
    instant = replace(an_instant(holding("other", "n0", 0)), quiet=frozenset({"n0"}))
    assert supply(instant, EvictionSettings()).pauses == {A100: (Grant("n0", 2, EPOCH + PAUSE),)}


def test_an_unhealthy_device_of_a_booked_pod_does_not_change_the_pause() -> None:
    instant = an_instant(holding("mine", "n0", 0), n0=(a100(0, health="unhealthy"), a100(1)))
    instant = replace(instant, cover={"uid-mine": a_booking()}, quiet=frozenset({"n0"}))
    assert supply(instant, EvictionSettings()).pauses == {A100: (Grant("n0", 1, EPOCH + PAUSE),)}


def test_a_node_without_available_devices_has_no_pause() -> None:
    instant = replace(an_instant(), quiet=frozenset({"n0", "n1"}), gone=frozenset({"n0"}))
    found = supply(instant, EvictionSettings())
    assert found.devices[A100] == {"n0": 0, "n1": 2}
    assert [pause.node for pause in found.pauses[A100]] == ["n1"]
