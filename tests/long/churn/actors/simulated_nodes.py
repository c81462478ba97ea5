"""Nodes without machines, in a process that can be killed: ``python simulated_nodes.py CLUSTER ROLE``.

ROLE ``kubelets``: they register their nodes, renew their Leases, run pods and end those that are deleted.
ROLE ``agents``: the inventories of all nodes, and the Leases of their node agents. Which nodes there are,
and which pods hang, is in the file of ``desired_nodes``. All that is known is read from the API server:
a process that is killed goes on when it is started again.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from cluster import names
from cluster.kube.backoff import unpredictable
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.lease_writer import micro_time
from cluster.kube.reflector import Reflector
from cluster.kube.resources import LEASES, NODES, PODS, WHOLE_PODS, WholePod
from cluster.objects.inventory import encode_inventory
from cluster.objects.nodes import Node
from cluster.process.clock import Clock, SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from tests.fakes.objects import a100
from tests.long.churn import desired_nodes
from tests.long.churn.desired_nodes import GPUS, HANGS, LABEL, DesiredNodes

Json = dict[str, Any]

THREADS: Final = 16
"""Calls at a time: on a busy machine each of them waits much longer than it works."""
TICK: Final = 0.05
KUBELET_RENEWS: Final = 10.0
AGENT_RENEWS: Final = 20.0
"""Seconds; an agent's Lease counts for 75: fewer writes leave the API server to the pods."""
STARTS_WITHIN: Final = 0.2
ENDS_WITHIN: Final = 0.5
AGAIN_AFTER: Final = 0.5
READ_EVERY: Final = 1.0
"""Seconds after which the desired nodes are read again."""
OVER: Final = frozenset({"Succeeded", "Failed"})


class Renewals:
    """Leases that are renewed in turn."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        *,
        namespace: str,
        seconds: int,
        every: float,
        lease: Callable[[str], str],
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._namespace = namespace
        self._seconds = seconds
        self._every = every
        self._lease = lease
        self._due: dict[str, float] = {}
        self._random = unpredictable()

    def due(self, nodes: Sequence[str]) -> list[str]:
        """The nodes whose Lease is renewed now; from then on at moments of their own."""
        now = self._clock.monotonic()
        self._due = {name: self._due.get(name, now) for name in nodes}
        found = [name for name, at in self._due.items() if at <= now]
        for name in found:
            self._due[name] = now + self._every * self._random.uniform(0.8, 1.0)
        return found

    def renew(self, node: str) -> None:
        """Renew one."""
        name, at = self._lease(node), micro_time(self._clock.now())
        spec = {"renewTime": at, "holderIdentity": node, "leaseDurationSeconds": self._seconds}
        try:
            self._kube.patch(LEASES, name, {"spec": spec}, namespace=self._namespace)
        except NotFound:
            self._kube.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace=self._namespace)


class Nodes:
    """The Node objects that there are: a handler for a reflector."""

    def __init__(self) -> None:
        self.known: dict[str, Node] = {}

    def replace(self, items: Sequence[Node], _version: str, /) -> None:
        """All of them."""
        self.known = {node.metadata.name: node for node in items}

    def upsert(self, node: Node, /) -> None:
        """One is new or has changed."""
        self.known[node.metadata.name] = node

    def remove(self, node: Node, /) -> None:
        """One is gone."""
        self.known.pop(node.metadata.name, None)


class Agents:
    """The node agents of all nodes."""

    def __init__(self, kube: Kube, clock: Clock, nodes: Nodes) -> None:
        self._kube = kube
        self._nodes = nodes
        self._leases = Renewals(
            kube, clock, namespace=names.NAMESPACE, seconds=30, every=AGENT_RENEWS, lease=names.node_lease
        )

    def calls(self, desired: DesiredNodes) -> list[Callable[[], object]]:
        """What is due now."""
        known = [name for name in desired.present if name in self._nodes.known]
        bare = [name for name in known if not self._nodes.known[name].metadata.annotation(names.INVENTORY)]
        renewals = [partial(self._leases.renew, name) for name in self._leases.due(known)]
        return [*(partial(self._publish, name) for name in bare), *renewals]

    def _publish(self, node: str) -> None:
        inventory = encode_inventory(tuple(a100(index, node) for index in range(GPUS)))
        self._kube.patch(NODES, node, {"metadata": {"annotations": {names.INVENTORY: inventory}}})


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(self, kube: Kube, clock: Clock, nodes: Nodes) -> None:
        self._kube = kube
        self._clock = clock
        self._nodes = nodes
        self._leases = Renewals(
            kube, clock, namespace=names.KUBELET_LEASES, seconds=40, every=KUBELET_RENEWS, lease=str
        )
        self._lock = threading.Lock()
        self._pods: dict[str, WholePod] = {}
        self._due: dict[str, float] = {}
        self._desired: DesiredNodes | None = None

    def calls(self, desired: DesiredNodes) -> list[Callable[[], object]]:
        """What is due now."""
        with self._lock:
            now = self._clock.monotonic()
            if desired != self._desired:
                self._desired = desired
                self._due = dict.fromkeys(self._pods, now)
            ready = [uid for uid, at in self._due.items() if at <= now]
            for uid in ready:
                del self._due[uid]
            pods = [self._pods[uid] for uid in ready if uid in self._pods]
        renewals = [partial(self._leases.renew, name) for name in self._leases.due(desired.present)]
        reports = [partial(self._report, name) for name in desired.present if not self._is_ready(name)]
        return [*reports, *renewals, *(partial(self._carry_on, pod) for pod in pods)]

    # --- nodes -----------------------------------------------------------------------------------------
    def _is_ready(self, name: str) -> bool:
        node = self._nodes.known.get(name)
        return node is not None and any(
            c.type == "Ready" and c.status == "True" for c in node.status.conditions or ()
        )

    def _report(self, name: str) -> None:
        """Register the node, or say that it is Ready."""
        at = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", names.GPU_RESOURCE: str(GPUS)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        conditions = [{**ready, "lastHeartbeatTime": at, "lastTransitionTime": at}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
        if name in self._nodes.known:
            self._kube.patch(NODES, name, {"status": status}, subresource="status")
            return
        labels = {LABEL: "true", "kubernetes.io/hostname": name}
        self._kube.create(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

    # --- pods ------------------------------------------------------------------------------------------
    def replace(self, items: Sequence[WholePod], _version: str, /) -> None:
        """All pods that are bound."""
        with self._lock:
            self._pods = {pod.metadata.uid: pod for pod in items}
            self._due = dict.fromkeys(self._pods, self._clock.monotonic())

    def upsert(self, pod: WholePod, /) -> None:
        """One is bound, or has changed."""
        with self._lock:
            self._pods[pod.metadata.uid] = pod
            within = ENDS_WITHIN if pod.metadata.deletion_timestamp else STARTS_WITHIN
            self._due.setdefault(pod.metadata.uid, self._clock.monotonic() + within)

    def remove(self, pod: WholePod, /) -> None:
        """One is gone."""
        with self._lock:
            self._pods.pop(pod.metadata.uid, None)
            self._due.pop(pod.metadata.uid, None)

    def _carry_on(self, pod: WholePod) -> None:
        """Do what is due for a pod; what is refused is tried again with what is known by then."""
        try:
            self._do(pod)
        except NotFound:
            self.remove(pod)
        except ApiError:
            with self._lock:
                self._due.setdefault(pod.metadata.uid, self._clock.monotonic() + AGAIN_AFTER)

    def _do(self, pod: WholePod) -> None:
        meta, desired = pod.metadata, self._desired
        if desired is None or pod.spec.get("nodeName") not in desired.present:
            return
        phase = pod.status.get("phase")
        if not meta.deletion_timestamp:
            if phase == "Pending":
                self._write(pod, "Running", {"running": {"startedAt": self._at()}})
            return
        if HANGS in (meta.labels or {}) and not desired.ends:
            return
        if phase not in OVER:
            ended = {"exitCode": 137, "finishedAt": self._at()}
            self._write(pod, "Failed", {"terminated": ended})
        # Again where nothing else keeps it: one before us may have been killed before its request arrived.
        if meta.deletion_grace_period_seconds or not meta.finalizers:
            self._kube.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_seconds=0)

    def _write(self, pod: WholePod, phase: str, inside: Json) -> None:
        """In the state that we know alone: a merge patch would undo a condition that somebody adds now."""
        is_up = phase == "Running"
        containers = [
            {"name": one["name"], "image": "none", "imageID": "", "restartCount": 0, "ready": is_up}
            for one in pod.spec["containers"]
        ]
        own = ("Ready", "ContainersReady", "Initialized")
        conditions = [c for c in pod.status.get("conditions") or () if c["type"] not in own]
        conditions += [{"type": kind, "status": str(is_up or kind == "Initialized")} for kind in own]
        status: Json = {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{**one, "state": inside} for one in containers],
        }
        if not pod.status.get("startTime"):
            status["startTime"] = self._at()
        meta = pod.metadata
        guards = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": guards, "status": status}
        with suppress(Conflict):  # it has changed: the watch reports that, and it is due again then
            self._kube.patch(PODS, meta.name, body, namespace=meta.namespace, subresource="status")

    def _at(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def quietly(call: Callable[[], object]) -> None:
    """What fails now is due again soon."""
    with suppress(ApiError):
        call()


def run(name: str, role: str) -> None:
    """For ever."""
    cluster = Cluster.attach(name)
    kube, clock, stop = administrator(cluster), SystemClock(), threading.Event()
    nodes = Nodes()
    reflectors: list[Reflector[Any]] = [Reflector(kube, NODES, nodes, clock)]
    actor: Agents | Kubelets
    if role == "agents":
        actor = Agents(kube, clock, nodes)
    else:
        actor = Kubelets(kube, clock, nodes)
        reflectors.append(Reflector(kube, WHOLE_PODS, actor, clock, field_selector="spec.nodeName!="))
    for reflector in reflectors:
        threading.Thread(target=reflector.run, args=(stop,), daemon=True).start()
    while not all(reflector.is_synced for reflector in reflectors):
        clock.wait(stop, TICK)
    _act(actor, cluster.state, clock, stop)


def _act(actor: Agents | Kubelets, state: Path, clock: Clock, stop: threading.Event) -> None:
    desired, read_at = desired_nodes.read(state), clock.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        while not clock.wait(stop, TICK):
            if clock.monotonic() - read_at >= READ_EVERY:
                desired, read_at = desired_nodes.read(state), clock.monotonic()
            list(pool.map(quietly, actor.calls(desired)))


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
