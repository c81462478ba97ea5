"""From which address somebody asks: nobody names another one but a proxy that is trusted."""

import pytest

from booking.web.client_address import UNKNOWN, client_address, networks_of

INGRESS = networks_of(["10.244.0.0/16", "fd00::/8", "192.0.2.7"])
PROXY = "10.244.0.9"


def test_without_a_trusted_proxy_nobody_writes_who_they_are() -> None:
    assert client_address("203.0.113.5", "198.51.100.1", ()) == "203.0.113.5"
    assert client_address("203.0.113.5", "198.51.100.1", INGRESS) == "203.0.113.5"


@pytest.mark.parametrize("proxy", [PROXY, "192.0.2.7", "fd00::1", "::ffff:10.244.0.9"])
def test_a_trusted_proxy_says_who_asked_it(proxy: str) -> None:
    assert client_address(proxy, "203.0.113.5", INGRESS) == "203.0.113.5"


def test_what_stands_before_the_word_of_a_trusted_proxy_is_anybodys_invention() -> None:
    assert client_address(PROXY, "198.51.100.1, 203.0.113.5", INGRESS) == "203.0.113.5"


def test_proxies_behind_each_other_are_looked_through() -> None:
    assert client_address(PROXY, "198.51.100.1, 203.0.113.5, 10.244.3.3,192.0.2.7", INGRESS) == "203.0.113.5"


@pytest.mark.parametrize("forwarded", [None, "", " ", "unknown", "evil, _hidden", "203.0.113.5, nonsense"])
def test_a_proxy_that_does_not_say_it_asks_for_itself(forwarded: str | None) -> None:
    assert client_address(PROXY, forwarded, INGRESS) == PROXY


def test_a_chain_of_nothing_but_trusted_proxies_ends_at_the_first() -> None:
    assert client_address(PROXY, "10.244.1.1", INGRESS) == "10.244.1.1"


@pytest.mark.parametrize("written", ["203.0.113.5:4711", "::ffff:203.0.113.5", " 203.0.113.5 "])
def test_one_address_is_one_however_it_is_written(written: str) -> None:
    assert client_address(PROXY, written, INGRESS) == "203.0.113.5"


@pytest.mark.parametrize("written", ["2001:db8:0:1::5", "[2001:db8:0:1:aa::6]:443", "2001:DB8:0:1:ffff::"])
def test_the_addresses_that_one_household_may_choose_from_are_one(written: str) -> None:
    assert client_address(written.strip("[]").partition("]")[0], None, ()) == "2001:db8:0:1::/64"
    assert client_address(PROXY, written, INGRESS) == "2001:db8:0:1::/64"


@pytest.mark.parametrize("peer", [None, "", "/run/socket"])
def test_who_comes_from_nowhere_is_one_stranger(peer: str | None) -> None:
    assert client_address(peer, "203.0.113.5", INGRESS) == UNKNOWN


@pytest.mark.parametrize("text", ["ingress", "", "10.0.0.0/33", "10.0.0"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        networks_of(["10.0.0.0/8", text])
