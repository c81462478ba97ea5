"""kube-controller-manager: one replica, noticing a dead kubelet after 16 seconds."""

from devcluster import versions
from devcluster.components.kubelet import LEASE_SECONDS
from devcluster.plan import Plan

NAME = "kube-controller-manager"


def command(plan: Plan) -> list[str]:
    """The command line of kube-controller-manager."""
    return [
        *plan.kubernetes(NAME),
        f"--kubeconfig={plan.configuration(f'{NAME}.kubeconfig')}",
        "--leader-elect=false",
        f"--service-account-private-key-file={plan.pki.service_account_key}",
        f"--root-ca-file={plan.pki.authority}",
        "--use-service-account-credentials=true",
        "--bind-address=127.0.0.1",
        f"--cert-dir={plan.configuration(NAME)}",
        "--node-monitor-period=2s",
        f"--node-monitor-grace-period={LEASE_SECONDS}s",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        *versions.emulation(plan.spec.emulates),
    ]
