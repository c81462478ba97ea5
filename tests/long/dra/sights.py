"""Which pods have which GPU, by the kernel alone: no device node may be in containers of two pods (law L1).

Neither the API server nor the kubelet is asked, and none of our parts: a claim that all of them have
forgotten may still have its container. And what a container has must be in our agent's record of claims.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster import claim_names, names
from cluster.process.clock import SystemClock
from devcluster.cgroups import CgroupTree
from devcluster.cluster import Cluster
from devcluster.paths import paths_of
from deviceplugin.dra.prepared import PreparedFile
from tests.threads import running

EVERY: Final = 0.25
"""Seconds between two looks."""
_POD: Final = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f_-]{27})")
_GPU: Final = re.compile(r"nvidia(\d+)")

Seen = Mapping[str, frozenset[str]]
"""Name of a device in the ResourceSlices -> uids of the pods with it."""


class Sights:
    """Looks again and again."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = cluster.nodes
        self._kubelets = {node: cluster.state / node / "kubelet" for node in cluster.nodes}
        self._mark, self._tree = paths_of(cluster.name).mark, CgroupTree()
        self._clock = SystemClock()
        self.looks = 0
        self.problems: list[str] = []
        """What must not be, a sentence each."""

    def watch(self, stop: threading.Event) -> None:
        """Look until the stop event is set."""
        while not self._clock.wait(stop, EVERY):
            for node in self._nodes:
                self._look(node)
            self.looks += 1

    def seen(self, node: str) -> Seen:
        """Who has what on a node at this moment, nearly: one process is looked at after the other."""
        found: dict[str, set[str]] = {}
        for pid in self._tree.node_processes(self._mark, node):
            try:
                pod = _POD.search(Path(f"/proc/{pid}/cgroup").read_text())
                nodes = [path.name for path in Path(f"/proc/{pid}/root/dev").iterdir()]
            except OSError:  # it has ended
                continue
            for number in filter(None, map(_GPU.fullmatch, nodes)):
                if pod:
                    found.setdefault(f"gpu-{number[1]}", set()).add(pod[1].replace("_", "-"))
        return {device: frozenset(pods) for device, pods in found.items()}

    def prepared(self, node: str) -> dict[str, str]:
        """Device -> the claim that is prepared with it, by our agent's record."""
        path = self._kubelets[node] / "plugins" / names.DRA_DRIVER / claim_names.CLAIMS_FILE
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        claims = PreparedFile(path, boot).read().values()
        return {one.device: claim.key for claim in claims for one in claim.devices}

    def _look(self, node: str) -> None:
        """Pods that have a device before and after the record was read have had it all the while."""
        before, record, after = self.seen(node), self.prepared(node), self.seen(node)
        for device, pods in before.items():
            both = pods & after.get(device, frozenset())
            if len(both) > 1:
                self.problems.append(f"{device} of {node} is in pods {' and '.join(sorted(both))}.")
            if both and device not in record:
                self.problems.append(f"{device} of {node} is in pod {min(both)}, and not prepared.")


@contextmanager
def looked_at(cluster: Cluster, kind: type[Sights] = Sights) -> Iterator[Sights]:
    """Inside, it is watched who has which device.

    Raises:
        AssertionError: something was seen that must not be.
    """
    sights, stop = kind(cluster), threading.Event()
    with running([lambda: sights.watch(stop)], stop):
        yield sights
    assert sights.looks
    assert not sights.problems, sights.problems
