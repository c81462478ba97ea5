"""From which address somebody asks; proxies that are trusted are looked through. Pure."""

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Network = IPv4Network | IPv6Network
FORWARDED: Final = "X-Forwarded-For"
"""Each proxy writes behind what stands in it from whom it has got the request."""
UNKNOWN: Final = "an unknown address"
_HOUSEHOLD: Final = 64
"""Bits of an IPv6 address that one customer of a network has: the others they choose as they like."""


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks, or single addresses.

    Raises:
        ValueError: one of them is none.
    """
    return tuple(ip_network(text.strip(), strict=False) for text in texts)


def client_address(peer: str | None, forwarded: str | None, proxies: Iterable[Network]) -> str:
    """Who asks, as far as it can be told apart.

    Args:
        peer: the address at the other end of the connection.
        forwarded: the header, which anybody can write: only what a trusted proxy has put there counts.
        proxies: those that are trusted.
    """
    trusted = tuple(proxies)
    found = _address(peer or "")
    hops = (forwarded or "").split(",")
    while found and hops and any(found in each for each in trusted):
        before = _address(hops.pop())
        if before is None:
            break
        found = before
    return _told(found) if found else UNKNOWN


def _told(address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((int(address), _HOUSEHOLD), strict=False))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, which some proxies write with a port behind it."""
    plain = text.strip()
    if plain.startswith("["):
        plain = plain[1:].partition("]")[0]
    elif plain.count(":") == 1:
        plain = plain.partition(":")[0]
    try:
        found = ip_address(plain)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
