"""etcd: the API server's store; without fsync, because its data need not outlive the cluster."""

from devcluster.plan import Plan

CLIENTS = "http://127.0.0.1:2379"
_PEERS = "http://127.0.0.1:2380"


def command(plan: Plan) -> list[str]:
    """The command line of etcd."""
    return [
        str(plan.programs.path("etcd")),
        f"--data-dir={plan.paths.state / 'etcd'}",
        f"--listen-client-urls={CLIENTS}",
        f"--advertise-client-urls={CLIENTS}",
        f"--listen-peer-urls={_PEERS}",
        f"--initial-advertise-peer-urls={_PEERS}",
        f"--initial-cluster=default={_PEERS}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
