"""The manifest of a reservation pod: it asks for one GPU of one node, and does nothing with it. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster import dialect_names, names
from cluster.objects.reservation_pods import reservation_name

COMPONENT: Final = "reservation"
NOBODY: Final = 65_535
"""The uid that it runs as, as Kubernetes' own pause containers do."""
RESOURCES: Final = {"cpu": "10m", "memory": "16Mi"}
"""Requests and limits: with equal ones the kubelet ends it last when memory is short."""
_LONGEST_LABEL: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationTerms:
    """The administrator's settings for reservation pods."""

    image: str
    """An image that does nothing until it is ended, such as Kubernetes' own pause."""
    scheduler: str = names.SCHEDULER_NAME
    pull_secrets: tuple[str, ...] = ()
    """Secrets of the product's namespace with which nodes pull the image."""


def manifest(number: str, node: str, namespace: str, terms: ReservationTerms) -> dict[str, Any]:
    """The pod that reserves a numbered GPU.

    kube-scheduler places it, like every pod with a GPU: it may go to that node alone, and whatever taints
    that has, since pods that share its GPU may tolerate them.

    Args:
        number: the numbered GPU.
        node: its node.
        namespace: the product's own.
        terms: the settings.
    """
    resources = {**RESOURCES, names.GPU_RESOURCE: "1"}
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "schedulerName": terms.scheduler,
        "priorityClassName": names.RESERVATION_CLASS,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
        },
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": COMPONENT,
                "image": terms.image,
                "resources": {"limits": resources, "requests": resources},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
            }
        ],
    }
    if terms.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in terms.pull_secrets]
    return {
        "metadata": {
            "name": reservation_name(number),
            "namespace": namespace,
            "labels": {names.COMPONENT: COMPONENT, dialect_names.KAI_GROUP: _group(number)},
            "annotations": {
                names.RESERVES: number,
                names.NO_DISRUPTION: "true",
                names.SAFE_TO_EVICT: "false",
            },
        },
        "spec": spec,
    }


def opened(gpu: str) -> Mapping[str, str | None]:
    """The annotations by which its GPU is open for shares."""
    return {names.OPENED: gpu, dialect_names.KAI_RESERVED: gpu}


def _group(number: str) -> str:
    return number if len(number) <= _LONGEST_LABEL else hashlib.sha256(number.encode()).hexdigest()[:63]
