"""kube-proxy: one for the whole cluster, because all nodes share its network namespace."""

import json

from devcluster import versions
from devcluster.plan import Plan

NAME = "kube-proxy"


def command(plan: Plan) -> list[str]:
    """The command line of kube-proxy."""
    return [*plan.kubernetes(NAME), f"--config={plan.configuration(f'{NAME}.json')}"]


def configuration(plan: Plan) -> str:
    """KubeProxyConfiguration."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "featureGates": versions.proxy_gates(plan.spec.kubernetes),
            "clientConnection": {"kubeconfig": str(plan.configuration(f"{NAME}.kubeconfig"))},
            "clusterCIDR": str(plan.addresses.network),
            "hostnameOverride": plan.nodes[0].name,
            # Otherwise NodePorts answer only at the first node's address.
            "nodePortAddresses": [str(plan.addresses.network)],
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            # So that kube-proxy leaves alone the sysctls that are read-only in a network namespace.
            "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "nftables": {"minSyncPeriod": "50ms"},
        },
        indent=2,
    )
