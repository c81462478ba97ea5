"""The addresses of clusters never overlap."""

from ipaddress import IPv4Network
from itertools import combinations

from devcluster.addresses import NODES_AT_MOST, RANGE, SLOTS, Addresses, bridge

LONGEST_INTERFACE_NAME = 15


def test_slots_share_no_address_and_stay_in_the_range_for_tests() -> None:
    networks = [Addresses(slot).network for slot in range(SLOTS)]

    assert all(network.subnet_of(RANGE) for network in networks)
    assert not any(one.overlaps(other) for one, other in combinations(networks, 2))


def test_the_pieces_of_a_slot_share_no_address() -> None:
    addresses = Addresses(SLOTS - 1)
    link = IPv4Network(f"{addresses.host}/30", strict=False)
    pieces = [link, addresses.services, *(addresses.pods(node) for node in range(NODES_AT_MOST))]

    assert addresses.control_plane in link
    assert addresses.host != addresses.control_plane
    assert addresses.kubernetes_service in addresses.services
    assert addresses.node(0) in addresses.pods(0)
    assert all(piece.subnet_of(addresses.network) for piece in pieces)
    assert not any(one.overlaps(other) for one, other in combinations(pieces, 2))


def test_interface_names_are_short_enough_for_the_kernel() -> None:
    # `-in` is added to the host's name while the link is being made.
    names = [f"{Addresses(SLOTS - 1).interface}-in", bridge(NODES_AT_MOST - 1)]

    assert all(len(name) <= LONGEST_INTERFACE_NAME for name in names)
