"""Carries out what was planned, and measures how soon each target has recovered."""

import signal
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Selection
from cluster.kube.resources import PODS
from cluster.process.clock import SystemClock
from devcluster.errors import ClusterError
from devcluster.wait import Stopwatch, poll
from tests.long.chaos.ground import GPUS, Ground
from tests.long.chaos.instances import COMPONENTS, Instance, chosen, instances
from tests.long.chaos.plan import AGENT, CONTROLLER, SERVER, Harm, group_of, is_ours, part_of
from tests.long.chaos.probes import Probes
from tests.long.chaos.recoveries import Recovery
from tests.patience import PATIENCE
from tests.threads import Timetable

Report = Callable[[str], None]
V = TypeVar("V")

BACK_WITHIN: Final = 2 * PATIENCE
"""Seconds: on a busy machine, with whatever else is away, and a kubelet that starts a container later each
time that it has ended, by up to five minutes."""
ASKS_EVERY: Final = 0.25
REPLICAS: Final = {AGENT: 1, SERVER: 1}
"""Pods of a target; of the others there are two."""
LEASES_OF: Final = {SERVER: names.MIRROR_LEASE}
"""Leases that are renewed though nobody leads."""


class Striking:
    """Everything that befalls the product."""

    def __init__(self, ground: Ground, *, fault: Report, say: Report) -> None:
        """Args: fault: called for each blow and each recovery; say: writes a line for people."""
        self._ground = ground
        self._probes = Probes(ground)
        self._fault = fault
        self._say = say
        self._clock = SystemClock()
        self.recovered: list[Recovery] = []
        """How soon each was there again, in the order in which they were."""
        self.struck: set[str] = set()
        """Ids of the containers that were killed, or whose pod was deleted."""

    def run(self, harms: Sequence[Harm]) -> None:
        """Carry out all of them at their moments; returns when everybody is there again."""
        Timetable().run(harms, self._carry_out, lambda harm: group_of(harm.target))

    def _carry_out(self, harm: Harm) -> None:
        if is_ours(harm.target):
            found = self._find(harm.target)
            self._report(f"{harm.target} {harm.kind}: {found.pod}")
            self._recover(harm, *self._strike(harm, found))
        else:
            self._report(f"{harm.target} {harm.kind}")
            daemon = self._ground.cluster.daemon(harm.target)
            daemon.kill()
            self._wait(harm.seconds)
            since = self._clock.now()
            daemon.restart()
            self._recover(harm, since, None)

    # --- harm ------------------------------------------------------------------------------------------
    def _find(self, target: str) -> Instance:
        found = self._await(lambda: chosen(self._ground.kube, target))
        assert found, f"{target} does not run: {self._probes.describe()}"
        return found

    def _strike(self, harm: Harm, found: Instance) -> tuple[datetime, Instance | None]:
        """Since when it is to recover, and who must not be taken for the one that is there again."""
        if harm.kind == "paused":
            found.signal(signal.SIGSTOP)
            self._wait(harm.seconds)
            found.signal(signal.SIGCONT)
            return self._clock.now(), None
        self.struck.add(found.container_id)
        since = self._clock.now()
        if harm.kind == "killed":
            found.signal(signal.SIGKILL)
        else:
            self._await(lambda: self._is_deleted(found))
        return since, found

    def _is_deleted(self, found: Instance) -> bool:
        """Delete a pod by force: nobody waits for its kubelet."""
        pods = self._ground.kube.list(PODS, Selection(namespace=names.NAMESPACE)).items
        if all(pod.metadata.uid != found.uid for pod in pods):
            return True
        kube = self._ground.kube
        kube.delete(PODS, found.pod, namespace=names.NAMESPACE, uid=found.uid, grace_seconds=0)
        return False

    # --- seeing ----------------------------------------------------------------------------------------
    def _recover(self, harm: Harm, since: datetime, struck: Instance | None) -> None:
        watch = Stopwatch()
        is_back = self._await(lambda: self._is_back(harm, since, struck))
        assert is_back, f"{harm.target}, {harm.kind}, does not recover: {self._probes.describe()}"
        recovery = Recovery(part=part_of(harm.target), kind=harm.kind, seconds=watch.seconds)
        self.recovered.append(recovery)
        self._report(f"{harm.target} is there again after {recovery.seconds:.1f} s")

    def _is_back(self, harm: Harm, since: datetime, struck: Instance | None) -> bool:
        probes, target, part = self._probes, harm.target, part_of(harm.target)
        if not is_ours(target):
            self._keep(target)
            return probes.process(target, since)
        there = [one for one in instances(self._ground.kube, target) if one.is_ready]
        others = [one for one in there if not struck or one.container_id != struck.container_id]
        if not len(there) == len(others) == REPLICAS.get(part, 2):
            return False
        if part == AGENT:
            node = target.partition("/")[0]
            return probes.is_renewed(names.node_lease(node), since) and probes.offers(node, GPUS)
        lease = COMPONENTS[part][2] or LEASES_OF[part]
        holders = tuple(f"{one.pod}_" for one in others)
        answers = {SERVER: probes.lists_bookings, CONTROLLER: probes.admits}.get(part, lambda: True)
        return probes.is_renewed(lease, since, holders) and answers()

    def _keep(self, target: str) -> None:
        """Start it once more where it has ended: an API server does whose etcd is not there yet."""
        daemon = self._ground.cluster.daemon(target)
        if daemon.exited is not None:
            daemon.restart()

    def _await(self, condition: Callable[[], V | None]) -> V | None:
        """Ask until it is so; who does not answer is asked again."""

        def ask() -> V | None:
            try:
                return condition()
            except (ApiError, ClusterError):
                return None

        return poll(ask, seconds=BACK_WITHIN, every=ASKS_EVERY)

    def _report(self, message: str) -> None:
        self._fault(message)
        self._say(message)

    def _wait(self, seconds: float) -> None:
        self._clock.wait(threading.Event(), seconds)
