"""Which pods have which GPU, by the kernel alone: no device node may be in containers of two pods (law L1).

Neither the API server nor the kubelet is asked, and none of our parts: a claim that all of them have
forgotten may still have its container. What a container has must be in our agent's record of claims, and in
the kubelet's own; pods of different claims may share a device as far as the record gives each a part of it.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from cluster import claim_names, names
from cluster.process.clock import SystemClock
from devcluster.cgroups import CgroupTree
from devcluster.cluster import Cluster, Record
from devcluster.paths import paths_of
from deviceplugin.dra.prepared import Prepared, PreparedFile
from tests.laws import claim_states
from tests.laws.claim_states import Believed
from tests.laws.sighted import Look, Seen, wrongs
from tests.threads import running

EVERY: Final = 0.25
"""Seconds between two looks."""
_POD: Final = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f_-]{27})")
_GPU: Final = re.compile(r"nvidia(\d+)")


class Sights:
    """Looks again and again."""

    is_by_claims = True
    """Whether nothing but claims gives devices there."""

    def __init__(self, cluster: Cluster, driver: str = names.DRA_DRIVER) -> None:
        self._driver = driver
        self._nodes = cluster.nodes
        self._kubelets = {node: cluster.state / node / "kubelet" for node in cluster.nodes}
        self._mark, self._tree = paths_of(cluster.name).mark, CgroupTree()
        spec = msgspec.json.decode(paths_of(cluster.name).record.read_bytes(), type=Record).spec
        self._sizes = {
            node.name: {f"gpu-{gpu.minor}": gpu.profile.memory_mib for gpu in node.gpus}
            for node in spec.nodes
        }
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
        """Device -> a claim that is prepared with it, by our agent's record."""
        return {one.device: claim.key for claim in self._record(node).values() for one in claim.devices}

    def _record(self, node: str) -> Prepared:
        path = self._kubelets[node] / "plugins" / self._driver / claim_names.CLAIMS_FILE
        return PreparedFile(path, Path("/proc/sys/kernel/random/boot_id").read_text().strip()).read()

    def _believed(self, node: str) -> Mapping[str, Believed]:
        try:
            content = (self._kubelets[node] / claim_states.NAME).read_bytes()
        except FileNotFoundError:  # it never had a claim
            return {}
        return claim_states.decode(content, self._driver)

    def _look(self, node: str) -> None:
        look = Look(
            before=self.seen(node),
            record=self._record(node),
            believed=self._believed(node),
            after=self.seen(node),
            sizes=self._sizes[node],
            is_by_claims=self.is_by_claims,
        )
        self.problems += [f"{node}: {wrong}" for wrong in wrongs(look)]


@contextmanager
def looked_at(
    cluster: Cluster, kind: type[Sights] = Sights, driver: str = names.DRA_DRIVER
) -> Iterator[Sights]:
    """Inside, it is watched who has which device.

    Raises:
        AssertionError: something was seen that must not be.
    """
    sights, stop = kind(cluster, driver), threading.Event()
    with running([lambda: sights.watch(stop)], stop):
        yield sights
    assert sights.looks
    assert not sights.problems, sights.problems
