"""The address of a client: only a trusted proxy may name another one."""

import pytest

from booking.server.web.client_address import UNKNOWN, client_address, networks_of

INGRESS = networks_of(["10.244.0.0/16", "fd00::/8", "192.0.2.7"])
PROXY = "10.244.0.9"


def test_without_a_trusted_proxy_the_header_is_ignored() -> None:
    assert client_address("203.0.113.5", "198.51.100.1", ()) == "203.0.113.5"
    assert client_address("203.0.113.5", "198.51.100.1", INGRESS) == "203.0.113.5"


@pytest.mark.parametrize("proxy", [PROXY, "192.0.2.7", "fd00::1", "::ffff:10.244.0.9"])
def test_a_trusted_proxy_names_its_client(proxy: str) -> None:
    assert client_address(proxy, "203.0.113.5", INGRESS) == "203.0.113.5"


def test_only_the_address_that_the_trusted_proxy_appended_counts() -> None:
    assert client_address(PROXY, "198.51.100.1, 203.0.113.5", INGRESS) == "203.0.113.5"


def test_a_chain_of_trusted_proxies_is_skipped() -> None:
    assert client_address(PROXY, "198.51.100.1, 203.0.113.5, 10.244.3.3,192.0.2.7", INGRESS) == "203.0.113.5"


@pytest.mark.parametrize("forwarded", [None, "", " ", "unknown", "evil, _hidden", "203.0.113.5, nonsense"])
def test_a_proxy_that_does_not_name_a_client_is_the_client(forwarded: str | None) -> None:
    assert client_address(PROXY, forwarded, INGRESS) == PROXY


def test_a_chain_of_nothing_but_trusted_proxies_ends_at_the_first() -> None:
    assert client_address(PROXY, "10.244.1.1", INGRESS) == "10.244.1.1"


@pytest.mark.parametrize("written", ["203.0.113.5:4711", "::ffff:203.0.113.5", " 203.0.113.5 "])
def test_an_address_is_the_same_however_it_is_written(written: str) -> None:
    assert client_address(PROXY, written, INGRESS) == "203.0.113.5"


@pytest.mark.parametrize("written", ["2001:db8:0:1::5", "[2001:db8:0:1:aa::6]:443", "2001:DB8:0:1:ffff::"])
def test_ipv6_addresses_of_one_64_bit_prefix_count_as_one(written: str) -> None:
    assert client_address(written.strip("[]").partition("]")[0], None, ()) == "2001:db8:0:1::/64"
    assert client_address(PROXY, written, INGRESS) == "2001:db8:0:1::/64"


@pytest.mark.parametrize("peer", [None, "", "/run/socket"])
def test_clients_without_an_address_count_as_one(peer: str | None) -> None:
    assert client_address(peer, "203.0.113.5", INGRESS) == UNKNOWN


@pytest.mark.parametrize("text", ["ingress", "", "10.0.0.0/33", "10.0.0"])
def test_an_invalid_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        networks_of(["10.0.0.0/8", text])
