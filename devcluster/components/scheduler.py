"""kube-scheduler: the stock one, with the profile of the cluster's specification."""

import json

from devcluster import versions
from devcluster.plan import Plan

NAME = "kube-scheduler"

# With kube-scheduler's own default (50) a burst of pods is bound at 53 a second.
_CLIENT = {"qps": 1000, "burst": 2000}


def command(plan: Plan) -> list[str]:
    """The command line of kube-scheduler."""
    return [
        *plan.kubernetes(NAME),
        f"--config={plan.configuration(f'{NAME}.json')}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={plan.configuration(NAME)}",
        *versions.emulation(plan.spec.emulates),
    ]


def configuration(plan: Plan) -> str:
    """KubeSchedulerConfiguration: the specification's, with defaults for the fields that it lacks."""
    given = dict(plan.spec.scheduler)
    client = {**_CLIENT, **given.pop("clientConnection", {})}
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **given,
            "clientConnection": {**client, "kubeconfig": str(plan.configuration(f"{NAME}.kubeconfig"))},
        },
        indent=2,
    )
