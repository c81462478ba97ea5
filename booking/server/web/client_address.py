"""The address of a client, behind trusted proxies. Pure."""

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
"""Each proxy appends the address from which it has received the request."""
UNKNOWN: Final = "an unknown address"
_IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that one customer of a network has: the others they choose as they like."""


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks, or single addresses.

    Raises:
        ValueError: one of them is neither.
    """
    return tuple(ip_network(text.strip(), strict=False) for text in texts)


def client_address(peer: str | None, forwarded: str | None, proxies: Iterable[Network]) -> str:
    """The client, as far as clients can be distinguished.

    Args:
        peer: the address at the other end of the connection.
        forwarded: the header, which any client can write: only entries of a trusted proxy count.
        proxies: the trusted ones.
    """
    trusted = tuple(proxies)
    found = _address(peer or "")
    hops = (forwarded or "").split(",")
    while found and hops and any(found in each for each in trusted):
        before = _address(hops.pop())
        if before is None:
            break
        found = before
    return _counted_as(found) if found else UNKNOWN


def _counted_as(address: IPv4Address | IPv6Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((int(address), _IPV6_PREFIX), strict=False))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address; some proxies append a port to it."""
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
