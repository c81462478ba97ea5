"""kwok plays the kubelets of simulated nodes: they become Ready, their pods run at once and end when deleted.

No cluster starts it by itself; measurements do. It is built by `devcluster.binaries.ensure_tool(KWOK)`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

NAME: Final = "kwok"
LABEL: Final = "simulated"
"""Label of the nodes whose kubelets it plays, and of no others."""
_LEASE_SECONDS: Final = 40
_DEFAULTS: Final = dict.fromkeys(
    ("nodeLeaseParallelism", "nodePlayStageParallelism", "podsOnNodeSyncParallelism"), 4
)
"""It has no defaults of its own once it is given options."""
_PARALLEL_PODS: Final = 32
"""Pods that it works on at one time. With its default of 4 a pod of a burst waits up to 0.9 s for its turn; a
real kubelet, which has its own node only, answers within some hundredths of a second."""

_NODE_STATUS: Final = """
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
{{ end }}
"""
_POD_STATUS: Final = """
phase: Running
startTime: {{ Now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state: {running: {startedAt: {{ Now | Quote }}}}
{{ end }}
"""
_READY: Final = '.status.conditions.[] | select( .type == "Ready" ) | .status'
_DELETED: Final = ".metadata.deletionTimestamp"


def command(program: Path, *, kubeconfig: Path, configuration: Path) -> list[str]:
    """The command line of kwok.

    Args:
        program: the executable.
        kubeconfig: with the rights of nodes; an administrator's will do.
        configuration: a file with the text that `configuration()` returns.
    """
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--config={configuration}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={LABEL}=true",
        f"--node-lease-duration-seconds={_LEASE_SECONDS}",
        "--v=WARN",
    ]


def configuration() -> str:
    """Its options, and the stages that nodes and pods go through; it has none of its own (kwok 0.8.0)."""
    ready = {"key": _READY, "operator": "NotIn", "values": ["True"]}
    alive = {"key": _DELETED, "operator": "DoesNotExist"}
    pending = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    stages = (
        _stage("node-ready", "Node", [ready], {"statusTemplate": _NODE_STATUS}),
        _stage("pod-runs", "Pod", [alive, pending], {"statusTemplate": _POD_STATUS}),
        _stage("pod-ends", "Pod", [{"key": _DELETED, "operator": "Exists"}], {"delete": True}),
    )
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {**_DEFAULTS, "podPlayStageParallelism": _PARALLEL_PODS},
    }
    return "\n---\n".join(json.dumps(document) for document in (options, *stages))


def _stage(
    name: str, kind: str, conditions: list[dict[str, Any]], following: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": conditions},
            "next": following,
        },
    }
