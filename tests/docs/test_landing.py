"""The diagrams of where pods land show the order that the policies document."""

import pytest

from cluster import names
from docs.tables.landing import ARRIVING, GPUS, PLANNED, SITS, Landing, landings


def nodes(landed: tuple[Landing, ...]) -> list[str | None]:
    return [one.node for one in landed]


@pytest.mark.parametrize("placement", names.PLACEMENTS)
def test_no_device_is_given_twice_and_each_pod_has_what_it_asks_for(placement: str) -> None:
    taken = [(node, index) for _, node, devices in SITS for index in devices]
    for one in landings(placement):
        assert len(one.devices) == (one.gpus if one.node else 0)
        taken += [(str(one.node), index) for index in one.devices]
    assert len(taken) == len(set(taken))


def test_binpack_leaves_a_whole_node_for_the_large_pod_and_spread_does_not() -> None:
    assert nodes(landings("binpack"))[-1] is not None
    assert nodes(landings("spread"))[-1] is None


def test_spread_begins_with_the_empty_nodes() -> None:
    assert set(nodes(landings("spread"))[:2]) == {"node-1", "node-4"}


def test_topology_gives_single_devices_whose_partner_is_gone_and_linked_pairs() -> None:
    landed = landings("topology")
    assert nodes(landed)[:2] == ["node-2", "node-3"]
    assert [one.devices for one in landed if one.gpus == 2] == [(0, 1)]


def test_booked_reserve_keeps_off_what_a_running_booking_will_need_while_there_is_other_room() -> None:
    node, count = PLANNED
    landed = landings("booked-reserve")
    there = sum(one.gpus for one in landed if one.node == node)
    sitting = sum(len(devices) for _, at, devices in SITS if at == node)
    assert GPUS - sitting - there >= count
    assert None not in nodes(landed)
    assert node in nodes(landings("binpack", ARRIVING[:3]))
