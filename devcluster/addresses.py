"""Which IP addresses a cluster uses: one slot of a range that is never routed, cut into pieces.

Every cluster has its own network namespace, so ports are constants; only the addresses that the host routes
into the cluster differ between clusters. The range is 198.18.0.0/15, which RFC 2544 sets aside for tests of
network devices.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

RANGE = IPv4Network("198.18.0.0/15")
_SLOT_PREFIX = 20
LINKS = "gpub-"
"""Prefix of the names of the links' ends on the host."""
_HOST_LINK, _SERVICES, _FIRST_NODE = 0, 1, 2

SLOTS = 2 ** (_SLOT_PREFIX - RANGE.prefixlen)
NODES_AT_MOST = 2 ** (24 - _SLOT_PREFIX) - _FIRST_NODE


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of the cluster in one slot (0 to SLOTS - 1)."""

    slot: int

    @property
    def network(self) -> IPv4Network:
        """Everything of this cluster; the host has one route to it."""
        begin = int(RANGE.network_address) + (self.slot << (32 - _SLOT_PREFIX))
        return IPv4Network((begin, _SLOT_PREFIX))

    @property
    def interface(self) -> str:
        """Name of the host's end of the link to the cluster."""
        return f"{LINKS}{self.slot}"

    @property
    def host(self) -> IPv4Address:
        """The host, seen from the cluster."""
        return self._piece(_HOST_LINK)[1]

    @property
    def control_plane(self) -> IPv4Address:
        """The cluster's own address: API server, NodePorts, processes outside pods."""
        return self._piece(_HOST_LINK)[2]

    @property
    def services(self) -> IPv4Network:
        """The ClusterIPs of Services; the first 16 are for static ones."""
        return self._piece(_SERVICES)

    @property
    def kubernetes_service(self) -> IPv4Address:
        """ClusterIP of the Service `kubernetes`."""
        return self.services[1]

    def pods(self, node: int) -> IPv4Network:
        """The addresses of the pods on the node with this index."""
        return self._piece(_FIRST_NODE + node)

    def node(self, node: int) -> IPv4Address:
        """The address of the node with this index: that of its bridge."""
        return self.pods(node)[1]

    def _piece(self, index: int) -> IPv4Network:
        return IPv4Network((int(self.network.network_address) + (index << 8), 24))


def bridge(node: int) -> str:
    """Name of a node's bridge, inside the cluster's network namespace."""
    return f"pods-{node}"
