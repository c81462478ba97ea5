"""The pod network of one node: a bridge that has the node's address, and pod addresses from host-local."""

import json

from devcluster.addresses import bridge
from devcluster.plan import NodePlan


def configuration(node: NodePlan) -> str:
    """The node's CNI conflist."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": str(node.cluster.addresses.pods(node.index))}]],
        "dataDir": str(node.folder / "cni" / "addresses"),
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridged = {
        "type": "bridge",
        "bridge": bridge(node.index),
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": ipam,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridged, ports]}, indent=2)
