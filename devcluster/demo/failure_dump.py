"""The state of the cluster when a step of the story fails, to find out why."""

from pathlib import Path
from typing import Final, Protocol

from devcluster.errors import ClusterError

_LINES: Final = 25
"""How many of the last lines of each answer are shown."""
_COMMANDS: Final = (
    ("pods", "--all-namespaces", "--output=wide"),
    ("nodes",),
    ("events", "--all-namespaces", "--sort-by=.lastTimestamp"),
)


class Inspected(Protocol):
    """The part of ``devcluster.cluster.Cluster`` that is used here."""

    def kubectl(self, *words: str) -> str:
        """What kubectl prints; ClusterError where it fails."""
        ...

    def keep_logs(self) -> Path | None:
        """Keep the logs. Returns their folder."""
        ...


def cluster_state(cluster: Inspected) -> str:
    """Pods, nodes and the newest events of a cluster, and where its logs are kept."""
    answers = [f"{words[0]}:\n{_answer(cluster, *words)}" for words in _COMMANDS]
    logs = cluster.keep_logs()
    return "\n".join([*answers, *([f"All logs are kept in {logs}."] if logs else [])])


def _answer(cluster: Inspected, *words: str) -> str:
    try:
        output = cluster.kubectl("get", *words, "--request-timeout=5s")
    except ClusterError as error:
        output = str(error)
    return "\n".join(f"  {line.rstrip()}" for line in output.splitlines()[-_LINES:])
