"""Which slots a cluster may take, and to which cluster a link belongs."""

from devcluster.addresses import SLOTS, Addresses
from devcluster.network import Route, free, owner_address


def test_every_slot_is_free_on_a_host_that_routes_elsewhere() -> None:
    routes = [Route(dst="default", dev="eth0"), Route(dst="192.0.2.0/24", dev="eth0"), Route(dst="10.0.0.7")]

    assert [addresses.slot for addresses in free(routes)] == list(range(SLOTS))


def test_a_slot_into_which_the_host_routes_is_left_out_whatever_made_the_route() -> None:
    inside_the_second = str(Addresses(1).node(0))
    routes = [Route(dst=inside_the_second, dev="tun0"), Route(dst=str(Addresses(3).network), dev="gpub-3")]

    assert [addresses.slot for addresses in free(routes)][:3] == [0, 2, 4]


def test_a_route_over_the_whole_range_leaves_no_slot() -> None:
    assert list(free([Route(dst="198.18.0.0/15", dev="tun0")])) == []


def test_the_address_of_a_link_differs_between_clusters_and_is_a_private_unicast_one() -> None:
    one, other = owner_address("gpu-booking.one"), owner_address("gpu-booking.other")

    assert one == owner_address("gpu-booking.one")
    assert one != other
    assert int(one[:2], 16) & 0b11 == 0b10
