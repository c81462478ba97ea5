"""What the story shows of a cluster on which one of its steps has failed."""

from pathlib import Path

from devcluster.demo.failure_dump import cluster_state
from devcluster.errors import ClusterError


class Stands:
    """A cluster with one pod and many events, whose nodes cannot be read."""

    def kubectl(self, *words: str) -> str:
        if "nodes" in words:
            raise ClusterError("kubectl get nodes failed: the server is away")
        return "\n".join(f"event {n}" for n in range(100)) if "events" in words else "bob-1   Pending\n"

    def keep_logs(self) -> Path | None:
        return Path("/kept/story")


def test_a_dump_shows_pods_nodes_the_newest_events_and_where_the_logs_are() -> None:
    lines = cluster_state(Stands()).splitlines()
    assert lines[:4] == [
        "pods:",
        "  bob-1   Pending",
        "nodes:",
        "  kubectl get nodes failed: the server is away",
    ]
    assert lines[4:6] == ["events:", "  event 75"]
    assert lines[-2:] == ["  event 99", "All logs are kept in /kept/story."]
