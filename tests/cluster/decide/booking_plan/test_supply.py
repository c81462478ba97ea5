"""What a node can give to bookings at one instant."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot, node_supply
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import PodHoldings, assigned_devices
from cluster.decide.protection import HANGS_AFTER
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_booking, a_pod

FIRST, SECOND = a100(0), a100(1)


def _snapshot(
    *pods: Pod, cover: Mapping[str, Booking] | None = None, gone: frozenset[str] = frozenset()
) -> SupplySnapshot:
    return SupplySnapshot(
        now=EPOCH,
        views={},
        pods={pod.metadata.uid: pod for pod in pods},
        cover=cover or {},
        namespaces={},
        home="gpu-booking",
        gone=gone,
    )


def _held(pod: Pod) -> PodHoldings:
    found = assigned_devices(pod)
    assert found is not None
    return found


def _view(
    *holdings: PodHoldings, devices: tuple[Device, ...] = (FIRST, SECOND), unknown: int = 0
) -> NodeView:
    counted = {names.GPU_RESOURCE: unknown} if unknown else {}
    return NodeView("n0", devices=devices, published=True, holdings=holdings, unknown=counted)


def _running(name: str = "p") -> PodBuilder:
    return a_pod(name).asks(1).on("n0", {"main": (FIRST.uuid,)})


def _deleted(until: timedelta) -> Pod:
    pod = _running().terminating().obj
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=EPOCH + until)
    return msgspec.structs.replace(pod, metadata=meta)


def test_an_empty_node_gives_its_devices_by_model() -> None:
    third = a6000(2)
    supply = node_supply(_view(devices=(FIRST, SECOND, third)), _snapshot())
    assert supply == NodeSupply(
        {FIRST.uuid: A100, SECOND.uuid: A100, third.uuid: A6000}, {A100: 2, A6000: 1}, {}
    )


def test_a_node_without_devices_gives_nothing() -> None:
    assert node_supply(_view(devices=()), _snapshot()) == NodeSupply({}, {}, {})


def test_a_node_with_an_unreadable_inventory_supplies_nothing() -> None:
    view = NodeView("n0", devices=(FIRST,), fault="It cannot be read.")
    assert node_supply(view, _snapshot()) == NodeSupply({}, {}, {})


def test_an_unhealthy_device_is_unavailable_and_its_model_stays_known() -> None:
    supply = node_supply(_view(devices=(a100(0, health="unhealthy"),)), _snapshot())
    assert supply == NodeSupply({}, {A100: 0}, {})


@pytest.mark.parametrize(("gone", "devices"), [("n0", 0), ("n1", 2)])
def test_only_a_node_that_is_gone_supplies_no_device(gone: str, devices: int) -> None:
    assert node_supply(_view(), _snapshot(gone=frozenset({gone}))).devices == {A100: devices}


@pytest.mark.parametrize(("unknown", "left"), [(1, 1), (2, 0), (3, 0)])
def test_unidentified_devices_are_subtracted_from_each_model_down_to_zero(unknown: int, left: int) -> None:
    supply = node_supply(_view(devices=(FIRST, SECOND, a6000(2)), unknown=unknown), _snapshot())
    assert supply.devices == {A100: left, A6000: 0}


_HOLDERS = {
    "an opportunistic pod": (_running().obj, True),
    "a pod of a DaemonSet": (_running().of_a_daemon_set().obj, False),
    "a pod that stops in time": (_deleted(timedelta(seconds=30)), True),
    "a pod that is about to hang": (_deleted(timedelta(seconds=1) - HANGS_AFTER), True),
    "a pod that hangs": (_deleted(-HANGS_AFTER), False),
}


@pytest.mark.parametrize(("pod", "is_had"), _HOLDERS.values(), ids=_HOLDERS.keys())
def test_a_held_device_is_available_when_its_holder_leaves_for_a_booked_pod(
    pod: Pod, *, is_had: bool
) -> None:
    supply = node_supply(_view(_held(pod)), _snapshot(pod))
    assert (FIRST.uuid in supply.models) == is_had
    assert supply.devices == {A100: 1 + is_had}


def test_a_device_whose_holder_only_the_node_s_agent_knows_is_unavailable() -> None:
    holding = PodHoldings("nobody", "n0", {FIRST.uuid: 1000})
    assert node_supply(_view(holding), _snapshot()).models == {SECOND.uuid: A100}


def test_a_booked_pod_s_device_belongs_to_its_booking_even_where_the_pod_is_never_evicted() -> None:
    pod = _running().of_a_daemon_set().obj
    supply = node_supply(_view(_held(pod)), _snapshot(pod, cover={pod.metadata.uid: a_booking()}))
    assert supply == NodeSupply({FIRST.uuid: A100, SECOND.uuid: A100}, {A100: 2}, {"b-1": 1})


def test_a_booked_pod_that_hangs_takes_its_device_out_of_the_supply() -> None:
    pod = _deleted(-HANGS_AFTER)
    supply = node_supply(_view(_held(pod)), _snapshot(pod, cover={pod.metadata.uid: a_booking()}))
    assert (supply.devices, supply.pins) == ({A100: 1}, {"b-1": 1})


def test_the_devices_of_all_pods_of_a_booking_are_summed() -> None:
    one = _running("p").obj
    two = a_pod("q").asks(1).on("n0", {"main": (SECOND.uuid,)}).obj
    cover = {pod.metadata.uid: a_booking() for pod in (one, two)}
    assert node_supply(_view(_held(one), _held(two)), _snapshot(one, two, cover=cover)).pins == {"b-1": 2}


def test_a_pod_that_holds_several_devices_counts_with_all_of_them() -> None:
    pod = a_pod().asks(2).on("n0", {"main": (FIRST.uuid, SECOND.uuid)})
    booked, stays = pod.obj, pod.of_a_daemon_set().obj
    cover = {booked.metadata.uid: a_booking()}
    assert node_supply(_view(_held(booked)), _snapshot(booked, cover=cover)).pins == {"b-1": 2}
    assert node_supply(_view(_held(stays)), _snapshot(stays)) == NodeSupply({}, {A100: 0}, {})


def test_pods_of_two_bookings_are_distinguished() -> None:
    one = _running("p").obj
    two = a_pod("q").asks(1).on("n0", {"main": (SECOND.uuid,)}).obj
    cover = {one.metadata.uid: a_booking("b-1"), two.metadata.uid: a_booking("b-2")}
    supply = node_supply(_view(_held(one), _held(two)), _snapshot(one, two, cover=cover))
    assert supply.pins == {"b-1": 1, "b-2": 1}


def test_a_booked_pod_on_a_node_that_is_gone_still_counts_there() -> None:
    pod = _running().obj
    instant = _snapshot(pod, cover={pod.metadata.uid: a_booking()}, gone=frozenset({"n0"}))
    assert node_supply(_view(_held(pod)), instant) == NodeSupply({}, {A100: 0}, {"b-1": 1})


def test_a_booked_pod_s_unhealthy_device_is_unavailable_and_still_its_booking_s() -> None:
    pod = _running().obj
    view = _view(_held(pod), devices=(a100(0, health="unhealthy"), SECOND))
    supply = node_supply(view, _snapshot(pod, cover={pod.metadata.uid: a_booking()}))
    assert (supply.devices, supply.pins) == ({A100: 1}, {"b-1": 1})


def test_an_unhealthy_device_that_is_held_for_good_is_subtracted_once() -> None:
    pod = _running().of_a_daemon_set().obj
    view = _view(_held(pod), devices=(a100(0, health="unhealthy"), SECOND))
    assert node_supply(view, _snapshot(pod)).devices == {A100: 1}


def test_not_even_the_pods_of_an_unreadable_node_are_counted() -> None:
    pod = _running().obj
    view = NodeView("n0", devices=(FIRST,), holdings=(_held(pod),), fault="It cannot be read.")
    assert node_supply(view, _snapshot(pod, cover={pod.metadata.uid: a_booking()})) == NodeSupply({}, {}, {})


def test_a_node_whose_agent_is_quiet_for_a_while_keeps_its_devices() -> None:
    instant = replace(_snapshot(), quiet=frozenset({"n0"}))
    assert node_supply(_view(), instant).devices == {A100: 2}


def test_unidentified_mig_devices_are_subtracted_from_no_whole_gpu() -> None:
    view = replace(_view(), unknown={"nvidia.com/mig-1g.10gb": 2})
    assert node_supply(view, _snapshot()).devices == {A100: 2}


def test_unidentified_devices_may_be_any_of_the_remaining_devices() -> None:
    pod = _running().of_a_daemon_set().obj
    supply = node_supply(_view(_held(pod), unknown=1), _snapshot(pod))
    assert (supply.devices, supply.models) == ({A100: 0}, {SECOND.uuid: A100})


def test_l6_a_pod_whose_devices_are_only_partly_known_keeps_the_known_ones() -> None:
    pod = a_pod().asks(2).on("n0").obj
    holding = PodHoldings(pod.metadata.uid, "n0", {FIRST.uuid: 1000}, unknown={names.GPU_RESOURCE: 1})
    assert node_supply(_view(holding, unknown=1), _snapshot(pod)) == NodeSupply(
        {SECOND.uuid: A100}, {A100: 0}, {}
    )


def _protected(name: str) -> Namespace:
    written = {"metadata": {"name": name, "annotations": {names.NEVER_EVICT: "true"}}}
    return msgspec.convert(written, Namespace)


@pytest.mark.parametrize(
    ("changes", "is_had"),
    [
        ({}, True),
        ({"home": "default"}, False),
        ({"namespaces": {"default": _protected("default")}}, False),
        ({"namespaces": {"research": _protected("research")}}, True),
    ],
    ids=["an ordinary one", "our own", "a protected one", "not the protected one"],
)
def test_whether_a_held_device_is_available_depends_on_its_holder_s_namespace(
    changes: dict[str, Any], *, is_had: bool
) -> None:
    pod = _running().obj
    supply = node_supply(_view(_held(pod)), replace(_snapshot(pod), **changes))
    assert (FIRST.uuid in supply.models) == is_had


def test_a_pod_that_is_never_evicted_returns_its_device_when_it_leaves_by_itself() -> None:
    pod = _running().of_a_daemon_set().terminating().obj
    assert node_supply(_view(_held(pod)), _snapshot(pod)).devices == {A100: 2}


def test_whether_a_pod_hangs_is_judged_at_the_instant() -> None:
    pod = _running().terminating().obj
    later = replace(_snapshot(pod), now=EPOCH + HANGS_AFTER)
    assert node_supply(_view(_held(pod)), _snapshot(pod)).devices == {A100: 2}
    assert node_supply(_view(_held(pod)), later).devices == {A100: 1}


def test_a_gpu_that_is_cut_is_in_the_supply_as_its_mig_devices_under_their_resource() -> None:
    small = a100(1, uuid="MIG-1", model=f"{A100}-MIG-1g.10gb", parent=FIRST.uuid, profile="1g.10gb")
    renamed = a100(1, uuid="MIG-2", model="B-MIG-1g.10gb", parent="b", profile="1g.10gb", resource="own")

    supply = node_supply(_view(devices=(FIRST, small, a100(2), renamed)), _snapshot())

    assert supply.devices == {small.model: 1, A100: 1, renamed.model: 1}
    assert supply.resources == {
        small.model: "nvidia.com/mig-1g.10gb",
        A100: names.GPU_RESOURCE,
        renamed.model: "own",
    }


def test_models_are_counted_under_one_spelling() -> None:
    supply = node_supply(_view(devices=(a100(0, model="NVIDIA A100-SXM4-80GB"), SECOND)), _snapshot())
    assert supply.devices == {A100: 2}
