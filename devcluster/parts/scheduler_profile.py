"""The KubeSchedulerConfiguration of mode ``dedicated``: a stock kube-scheduler that asks our extender.

Every value here is one of those without which pods spin, wait for ever or are bound without devices
(kube-scheduler 1.37): names only are sent (``nodeCacheCapable``), all nodes are looked at
(``percentageOfNodesToScore: 100``), and a binder is never ``ignorable``.
"""

from pathlib import Path
from typing import Any

from cluster import names

_SCHEDULE = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind"}


def configuration(*, kubeconfig: Path, extender_url: str) -> dict[str, Any]:
    """The configuration as a document.

    Args:
        kubeconfig: of the scheduler's own ServiceAccount.
        extender_url: where the extender answers, e.g. ``http://127.0.0.1:8888``.
    """
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": {
            "leaderElect": True,
            "resourceNamespace": names.NAMESPACE,
            "resourceName": names.SCHEDULER_LEASE,
        },
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": names.SCHEDULER_NAME}],
        "extenders": [
            {
                "urlPrefix": extender_url,
                **_SCHEDULE,
                "weight": 10,
                "httpTimeout": "5s",
                "nodeCacheCapable": True,
                "ignorable": False,
                "managedResources": [{"name": names.GPU_RESOURCE, "ignoredByScheduler": False}],
            }
        ],
    }
