"""What stands when a step of the story fails: for whoever reads why."""

from pathlib import Path
from typing import Final, Protocol

from devcluster.errors import ClusterError

_LINES: Final = 25
"""Of each answer, the last ones."""
_ASKED: Final = (
    ("pods", "--all-namespaces", "--output=wide"),
    ("nodes",),
    ("events", "--all-namespaces", "--sort-by=.lastTimestamp"),
)


class Stands(Protocol):
    """A ``devcluster.cluster.Cluster``."""

    def kubectl(self, *words: str) -> str:
        """What kubectl prints; ClusterError where it fails."""
        ...

    def keep_logs(self) -> Path | None:
        """Where they are kept then."""
        ...


def what_stands(cluster: Stands) -> str:
    """Pods, nodes and the newest events of a cluster, and where its logs are kept."""
    said = [f"{words[0]}:\n{_asked(cluster, *words)}" for words in _ASKED]
    logs = cluster.keep_logs()
    return "\n".join([*said, *([f"All logs are kept in {logs}."] if logs else [])])


def _asked(cluster: Stands, *words: str) -> str:
    try:
        told = cluster.kubectl("get", *words, "--request-timeout=5s")
    except ClusterError as error:
        told = str(error)
    return "\n".join(f"  {line.rstrip()}" for line in told.splitlines()[-_LINES:])
