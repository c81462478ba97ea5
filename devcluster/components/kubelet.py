"""kubelet: one per node, set up to report quickly to the API server."""

import json
from typing import Any

from devcluster import versions
from devcluster.components.containerd import SOCKET
from devcluster.plan import NodePlan

ROOT = "/var/lib/kubelet"
LEASE_SECONDS = 16
"""A kubelet renews its Lease four times in this; kube-controller-manager waits as long for a silent one."""


def command(node: NodePlan) -> list[str]:
    """The command line of kubelet."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(node.spec.labels.items()))
    return [
        *node.cluster.kubelet(node.spec),
        f"--config={node.folder / 'kubelet.json'}",
        f"--kubeconfig={node.kubeconfig}",
        f"--root-dir={ROOT}",
        f"--cert-dir={node.folder / 'pki'}",
        f"--hostname-override={node.name}",
        f"--node-ip={node.cluster.addresses.node(node.index)}",
        *([f"--node-labels={labels}"] if labels else []),
    ]


def configuration(node: NodePlan) -> str:
    """KubeletConfiguration."""
    folder = node.folder
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "0.0.0.0",  # logs and exec: the API server dials the node's address
            "port": node.kubelet_port,
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": node.kubelet_health_port,
            "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},  # only the host reaches this network
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "resolvConf": "",
            "makeIPTablesUtilChains": False,
            "staticPodPath": f"{folder}/static-pods",
            "podLogsDir": f"{folder}/pod-logs",
            "volumePluginDir": f"{folder}/volume-plugins",
            "imageMinimumGCAge": "24h",  # an image that was removed could not be pulled again
            "serializeImagePulls": False,
            "maxPods": 110,
            **_resources(node),
            **_pace(),
            **_gates(node),
            **node.cluster.spec.kubelet,
        },
        indent=2,
    )


def _gates(node: NodePlan) -> dict[str, Any]:
    gates = {} if node.spec.kubernetes else versions.kubelet_gates(node.cluster.spec.emulates)
    return {"featureGates": gates} if gates else {}


def _resources(node: NodePlan) -> dict[str, Any]:
    """Control groups and eviction; kubelets from 1.35 on refuse cgroups of version 1 by default."""
    return {
        **({"failCgroupV1": False} if node.cluster.cgroup_version == 1 else {}),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup,
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        # The next two need no right that a container without CAP_SYS_RESOURCE lacks.
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "evictionHard": {
            "memory.available": "1Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "0%",
            "imagefs.inodesFree": "0%",
        },
    }


def _pace() -> dict[str, Any]:
    """Short periods between its checks and reports, and no rate limit on its Events."""
    return {
        "syncFrequency": "5s",
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "30s",
        "fileCheckFrequency": "1s",
        "httpCheckFrequency": "1s",
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    }
