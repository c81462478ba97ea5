"""The link between the host and a cluster's network namespace, and what is inside that namespace.

The host's end of the link reserves a slot: the kernel makes an interface of one name only once. Its MAC
address identifies the cluster from the moment the link is made. Removing the link removes everything that the
cluster has in the host's network, since address and route belong to it.
"""

import hashlib
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network

import msgspec

from devcluster.addresses import RANGE, SLOTS, Addresses, bridge
from devcluster.commands import output
from devcluster.errors import ClusterError

_INSIDE = "eth0"


class Link(msgspec.Struct):
    """An interface, as `ip -json link` prints it."""

    ifname: str = ""
    address: str = ""


class Route(msgspec.Struct):
    """A route, as `ip -json route` prints it."""

    dst: str = ""
    dev: str = ""


def reserve(mark: str) -> Addresses:
    """Take the first free slot by making its link; ClusterError if all are taken."""
    for addresses in free(_routes()):
        link = ["link", "add", addresses.interface, "address", owner_address(mark), "type", "veth"]
        try:
            output(["ip", *link, "peer", "name", _peer(addresses)])
        except ClusterError as error:
            if "File exists" not in str(error):
                raise
        else:
            return addresses
    raise ClusterError(
        f"All {SLOTS} slots for clusters are taken, or the host routes into {RANGE} already: "
        "`ip link` and `ip route` show by what, `.venv/bin/python -m devcluster status` lists the clusters."
    )


def free(routes: Sequence[Route]) -> Iterator[Addresses]:
    """The slots into which the host does not route; another cluster may have taken them meanwhile."""
    taken = [IPv4Network(route.dst) for route in routes if route.dst != "default"]
    for slot in range(SLOTS):
        addresses = Addresses(slot)
        if not any(addresses.network.overlaps(network) for network in taken):
            yield addresses


def connect(addresses: Addresses, *, pid: int, nodes: int) -> None:
    """Give this process's namespace its end of the link and a bridge per node; give the host the route."""
    output(["ip", "link", "set", _peer(addresses), "netns", str(pid), "name", _INSIDE])
    inside = [
        "link set lo up",
        f"addr add {addresses.control_plane}/30 dev {_INSIDE}",
        f"link set {_INSIDE} up",
        f"route add default via {addresses.host}",
    ]
    for node in range(nodes):
        # Bridges exist before the kubelets start: their addresses are the nodes'.
        inside += [
            f"link add {bridge(node)} type bridge",
            f"addr add {addresses.node(node)}/24 dev {bridge(node)}",
            f"link set {bridge(node)} up",
        ]
    outside = [
        f"addr add {addresses.host}/30 dev {addresses.interface}",
        f"link set {addresses.interface} up",
        f"route add {addresses.network} via {addresses.control_plane}",
    ]
    output(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"], given=_lines(inside))
    output(["ip", "-batch", "-"], given=_lines(outside))


def remove(mark: str) -> None:
    """Remove every link of a cluster."""
    for name in links(mark):
        try:
            output(["ip", "link", "del", name])
        except ClusterError:
            if name in links(mark):  # it may have vanished with its namespace
                raise


def links(mark: str) -> list[str]:
    """Names of the host's interfaces that belong to a cluster."""
    found = msgspec.json.decode(output(["ip", "-json", "link"]) or "[]", type=list[Link])
    return [link.ifname for link in found if link.address == owner_address(mark)]


def owner_address(mark: str) -> str:
    """A locally administered MAC address that only the links of one cluster have."""
    digest = hashlib.sha256(mark.encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))


def _peer(addresses: Addresses) -> str:
    return f"{addresses.interface}-in"


def _routes() -> list[Route]:
    return msgspec.json.decode(output(["ip", "-json", "route"]) or "[]", type=list[Route])


def _lines(commands: Sequence[str]) -> str:
    return "\n".join(commands) + "\n"
