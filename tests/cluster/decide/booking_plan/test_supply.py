"""What a node can give to bookings at one instant."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot, node_supply
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import Holding, holding_of
from cluster.decide.protection import HANGS_AFTER
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device
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


def _held(pod: Pod) -> Holding:
    found = holding_of(pod)
    assert found is not None
    return found


def _view(*holdings: Holding, devices: tuple[Device, ...] = (FIRST, SECOND), unknown: int = 0) -> NodeView:
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


def test_a_node_whose_inventory_cannot_be_read_gives_nothing() -> None:
    view = NodeView("n0", devices=(FIRST,), fault="It cannot be read.")
    assert node_supply(view, _snapshot()) == NodeSupply({}, {}, {})


def test_an_unhealthy_device_cannot_be_had_and_its_model_stays_known() -> None:
    supply = node_supply(_view(devices=(a100(0, health="unhealthy"),)), _snapshot())
    assert supply == NodeSupply({}, {A100: 0}, {})


@pytest.mark.parametrize(("gone", "devices"), [("n0", 0), ("n1", 2)])
def test_only_a_node_that_is_gone_gives_no_device(gone: str, devices: int) -> None:
    assert node_supply(_view(), _snapshot(gone=frozenset({gone}))).devices == {A100: devices}


@pytest.mark.parametrize(("unknown", "left"), [(1, 1), (2, 0), (3, 0)])
def test_devices_that_nobody_has_identified_are_subtracted_from_each_model_down_to_none(
    unknown: int, left: int
) -> None:
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
def test_a_held_device_can_be_had_when_its_holder_leaves_for_a_booked_pod(pod: Pod, *, is_had: bool) -> None:
    supply = node_supply(_view(_held(pod)), _snapshot(pod))
    assert (FIRST.uuid in supply.models) == is_had
    assert supply.devices == {A100: 1 + is_had}


def test_a_device_whose_holder_only_the_node_s_agent_knows_cannot_be_had() -> None:
    holding = Holding("nobody", "n0", {FIRST.uuid: 1000})
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
