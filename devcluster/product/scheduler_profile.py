"""KubeSchedulerConfigurations that ask our extender: a scheduler of our own, or the cluster's.

If one of these values is missing, pods are retried in a busy loop, wait indefinitely or are bound without
devices (kube-scheduler 1.37): only names are sent (``nodeCacheCapable``), all nodes are considered
(``percentageOfNodesToScore: 100``), and a binder is never ``ignorable``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cluster import names

_VERBS = ("filter", "prioritize", "preempt", "bind")
_SCHEDULE = {f"{verb}Verb": verb for verb in _VERBS}
WEIGHT = 10
"""Weight of the extender's scores relative to those of kube-scheduler's own plugins, as in the chart."""
SHARES = {
    "name": "NodeResourcesFit",
    "args": {"ignoredResources": [names.SHARED_RESOURCE, *names.GPU_AMOUNTS]},
}
"""Configuration of a plugin: shares of GPUs, and how large they are, are counted by the extender alone."""
_ELECTION = {
    "leaderElect": True,
    "resourceNamespace": names.NAMESPACE,
    "resourceName": names.SCHEDULER_LEASE,
    "leaseDuration": "10s",
    "renewDeadline": "7s",
    "retryPeriod": "1s",
}
"""Leader election as the chart sets it."""


def existing(*, extender_url: str, server_name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """What an administrator adds to the configuration of the cluster's own kube-scheduler: mode ``existing``.

    Args:
        extender_url: of the Service, e.g. ``https://198.51.100.7:8880``.
        server_name: the name for which its certificate is made.
        files: ``caFile``, ``certFile``, ``keyFile``. Without a ``caFile`` kube-scheduler does not verify the
            server.
    """
    tls = {"serverName": server_name, **files}
    return {
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [SHARES]}],
        "extenders": [{**_extender(extender_url), "enableHTTPS": True, "tlsConfig": tls}],
    }


def configuration(*, kubeconfig: Path, extender_url: str, elects: bool = True) -> dict[str, Any]:
    """The configuration of a scheduler of our own: mode ``dedicated``.

    Args:
        kubeconfig: of the scheduler's own ServiceAccount.
        extender_url: where the extender answers, e.g. ``http://127.0.0.1:8888``.
        elects: whether it schedules only while it holds the Lease; a single scheduler need not.
    """
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
        "leaderElection": _ELECTION if elects else {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": names.SCHEDULER_NAME, "pluginConfig": [SHARES]}],
        "extenders": [_extender(extender_url)],
    }


def _extender(url: str) -> dict[str, Any]:
    return {
        "urlPrefix": url,
        **_SCHEDULE,
        "weight": WEIGHT,
        "httpTimeout": "5s",
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [
            {"name": name, "ignoredByScheduler": False}
            for name in (names.GPU_RESOURCE, names.SHARED_RESOURCE)
        ],
    }
