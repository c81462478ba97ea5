"""kube-apiserver: RBAC and node restriction as in a real cluster, with static tokens."""

from devcluster import versions
from devcluster.components import etcd
from devcluster.plan import API_PORT, Plan


def command(plan: Plan) -> list[str]:
    """The command line of kube-apiserver; what the specification adds comes last and wins."""
    pki = plan.pki
    return [
        *plan.kubernetes("kube-apiserver"),
        f"--etcd-servers={etcd.CLIENTS}",
        "--bind-address=0.0.0.0",
        # Not loopback: it becomes the endpoint of the Service `kubernetes`.
        f"--advertise-address={plan.addresses.control_plane}",
        f"--secure-port={API_PORT}",
        f"--tls-cert-file={pki.server_certificate}",
        f"--tls-private-key-file={pki.server_key}",
        f"--service-cluster-ip-range={plan.addresses.services}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-signing-key-file={pki.service_account_key}",
        f"--service-account-key-file={pki.service_account_public_key}",
        f"--token-auth-file={pki.tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        "--profiling=false",
        *versions.emulation(plan.spec.emulates),
        *(f"--feature-gates={gate}=true" for gate in versions.server_gates(plan.spec.kubernetes)),
        *plan.spec.apiserver_arguments,
    ]
