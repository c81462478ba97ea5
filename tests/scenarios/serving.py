"""One node whose agent comes and goes, and everybody's events in any order: each step is one event.

The API server is in memory, time is virtual. The agent's Lease and the extender are the real ones; kubelet
and kube-scheduler are played as far as a bind and its refusal go. Events wait until somebody has them arrive,
each kind by itself.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from cluster import names
from cluster.cache import UNSUCCESSFUL
from cluster.decide.serving import ANSWERED_WITHIN
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.interface import Selection, WatchOptions
from cluster.kube.lease_writer import micro_time
from cluster.kube.node_lease import LeaseRenewer
from cluster.kube.resources import LEASES, NODES, PODS, Resource
from cluster.objects.inventory import encode_inventory
from cluster.objects.pods import Pod, is_live, is_terminal
from deviceplugin.process.graceful_shutdown import SERVED_ON
from extender.binding.assumed_binds import AssumedBinds
from extender.binding.bind import Bind
from extender.binding.binding_post import DEADLINE
from extender.binding.keyed_lock import KeyedLock
from extender.state.cluster_state import ClusterState
from extender.verbs.filter import Filter
from extender.wire import ExtenderArgs, ExtenderBindingArgs
from tests.fakes.objects import EPOCH, a100, a_pod
from tests.laws.memory import watch_memory

NODE: Final = "n0"
GPUS: Final = 3
REFUSED: Final = "UnexpectedAdmissionError"
LEEWAY: Final = 60.0
"""Seconds: events may wait for so long here."""


class Handler(Protocol):
    """Who follows a kind."""

    def replace(self, items: Sequence[Any], version: str, /) -> None:
        """All of them."""
        ...

    def upsert(self, item: Any, /) -> None:
        """New or changed."""
        ...

    def remove(self, item: Any, /) -> None:
        """Gone."""
        ...


class HeldWatch:
    """A watch whose events arrive when a step says so."""

    def __init__(
        self, kube: FakeKube, resource: Resource[Any], selection: Selection, handler: Handler
    ) -> None:
        self._kube, self._resource, self._selection, self._handler = kube, resource, selection, handler
        self._waiting: deque[Any] = deque()
        self.relist()

    def relist(self) -> None:
        """What was on the way is lost; everything is read again."""
        page = self._kube.list(self._resource, self._selection)
        self._handler.replace(page.items, page.resource_version)
        self._waiting.clear()
        options = WatchOptions(resource_version=page.resource_version)
        self._watch: Any = self._kube.watch(self._resource, self._selection, options)

    def arrive(self, most: int = 1_000) -> None:
        """So many events arrive, the oldest first."""
        self._waiting.extend(self._watch.ready())
        for _ in range(min(most, len(self._waiting))):
            event = self._waiting.popleft()
            if event.type == "DELETED":
                self._handler.remove(event.object)
            elif event.type != "BOOKMARK":
                self._handler.upsert(event.object)


class Agent:
    """One life of the node agent."""

    def __init__(self, node: "ServedNode", number: int) -> None:
        self.is_registered = False
        self.lease = LeaseRenewer(
            node.kube,
            node.clock,
            name=names.node_lease(NODE),
            holder=f"agent-{number}",
            serves=lambda: self.is_registered,
        )

    @property
    def holds(self) -> bool:
        """Whether somebody counts on it."""
        return self.lease.age() is not None

    def renew(self) -> None:
        """One turn of the Lease's thread."""
        if self.is_registered:
            self.lease.renew()
        else:
            self.lease.release()


@dataclass
class Kubelet:
    """What the kubelet knows."""

    agent: Agent | None = None
    """The agent whose stream is open."""
    seen: set[str] = field(default_factory=set)
    """Uids of the pods that it has answered for."""


class ServedNode:
    """The node, the extender and the queue."""

    def __init__(self, window: int = 1) -> None:
        self.window = window
        self.clock = FakeClock(EPOCH)
        self.kube = FakeKube(self.clock)
        self.devices = tuple(a100(index) for index in range(GPUS))
        self.kubelet = Kubelet()
        self.agent: Agent | None = None
        self.lives = 0
        self.deaths = 0
        """Of agents that others counted on."""
        self.created = 0
        self._bound_at: dict[str, float] = {}
        """Name -> when a pod was bound whose answer may not have reached the extender."""
        annotations = {names.INVENTORY: encode_inventory(self.devices)}
        self.kube.put(
            NODES, {"metadata": {"name": NODE, "annotations": annotations}, "spec": {}, "status": {}}
        )
        # Raises at the write that breaks a law; nobody here brings back who was refused (L4).
        watch_memory(self.kube, self.clock, leeway=LEEWAY)
        self.start_extender()

    # --- the extender ----------------------------------------------------------------------------------
    def start_extender(self) -> None:
        """A new one, which knows nothing but what it reads now."""
        self.state = ClusterState(self.clock, bind_window=self.window)
        self._filter = Filter(self.state)
        keyed_lock = KeyedLock(self.clock)
        self._bind = Bind(self.kube, self.state, self.clock, keyed_lock, leads=lambda: True, patience=0)
        self._settle = AssumedBinds(self.kube, self.state, self.clock, keyed_lock)
        home = Selection(namespace=names.NAMESPACE)
        self.watches = {
            "nodes": HeldWatch(self.kube, NODES, Selection(), self.state.of(NODES)),
            "leases": HeldWatch(self.kube, LEASES, home, self.state.of(LEASES)),
            "pods": HeldWatch(self.kube, PODS, Selection(field_selector=UNSUCCESSFUL), self.state.of(PODS)),
        }

    def all_events(self) -> None:
        """Everything has arrived."""
        for watch in self.watches.values():
            watch.arrive()

    def settle(self) -> None:
        """One reconciliation of binds of which no events have come."""
        self._settle.reconcile()

    def schedule(self) -> bool:
        """kube-scheduler tries the next pod, with what the Node says now; whether it is bound."""
        node = self.kube.get(NODES, NODE)
        offered = int((node.status.allocatable or {}).get(names.GPU_RESOURCE, 0))
        pods = self.pods()
        bound = [pod for pod in pods if pod.spec.node_name and not is_terminal(pod)]
        if len(bound) >= offered:
            return False
        waiting = [pod for pod in pods if not pod.spec.node_name and is_live(pod)]
        pod = waiting[0] if waiting else self._create()
        if not self._filter(ExtenderArgs(pod=pod, node_names=(NODE,))).node_names:
            return False
        meta = pod.metadata
        wanted = ExtenderBindingArgs(
            pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=NODE
        )
        if self._bind(wanted).error:
            return False
        self._bound_at[meta.name] = self.clock.monotonic()
        return True

    def _create(self) -> Pod:
        self.created += 1
        return self.kube.put(PODS, {**a_pod(f"p{self.created}").asks(1).raw, "status": {"phase": "Pending"}})

    # --- the agent -------------------------------------------------------------------------------------
    def start_agent(self) -> None:
        """A new process; the kubelet does not know it yet."""
        self.lives += 1
        self.agent = Agent(self, self.lives)

    def register(self) -> None:
        """The kubelet has the agent's devices."""
        assert self.agent
        self.agent.is_registered = True
        self.kubelet.agent = self.agent

    def kill(self) -> None:
        """The agent dies at once."""
        assert self.agent
        self.deaths += self.agent.holds
        self._ends()

    def stop(self) -> None:
        """The agent goes in good order: it releases its Lease, and serves who is on the way."""
        assert self.agent
        if self.agent.lease.release_lease():
            # Within this time the events arrive, what was decided before is posted, and is answered for.
            assert SERVED_ON > DEADLINE
            self.clock.advance(SERVED_ON)
            self.all_events()
            self.answer()
        self._ends()

    def _ends(self) -> None:
        if self.kubelet.agent is self.agent:
            self.kubelet.agent = None
        self.agent = None

    # --- the kubelet -----------------------------------------------------------------------------------
    def report(self) -> None:
        """The kubelet writes what it offers."""
        status = {"allocatable": {names.GPU_RESOURCE: str(GPUS if self.kubelet.agent else 0)}}
        self.kube.patch(NODES, NODE, {"status": status}, subresource="status")

    def pass_time(self, seconds: float) -> None:
        """Time passes.

        A kubelet that hangs next to an agent that lives, and events of pods that take as long, are not what
        this is about; where the agent is dead, so may be the kubelet, with the machine.
        """
        latest = min(self._bound_at.values(), default=float("inf")) + ANSWERED_WITHIN
        if self.agent and self.clock.monotonic() + seconds >= latest:
            self.answer()
            self.watches["pods"].arrive()
            self._bound_at.clear()
        self.clock.advance(seconds)

    def answer(self) -> None:
        """The kubelet takes who is bound, or refuses."""
        for pod in self.pods():
            if pod.spec.node_name and pod.metadata.uid not in self.kubelet.seen:
                self.kubelet.seen.add(pod.metadata.uid)
                status: dict[str, object] = {"phase": "Pending"}
                if self.kubelet.agent is None:
                    status = {"phase": "Failed", "reason": REFUSED, "message": "no healthy devices present"}
                self._says(pod, {**status, "startTime": self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")})

    def run_pods(self) -> None:
        """Who was taken runs."""
        for pod in self.pods():
            if pod.status.phase == "Pending" and pod.status.start_time:
                self._says(pod, {"phase": "Running"})

    def end_pod(self) -> None:
        """One that runs is done."""
        running = [pod for pod in self.pods() if pod.status.phase == "Running"]
        if running:
            self._says(running[0], {"phase": "Succeeded"})

    def _says(self, pod: Pod, status: dict[str, object]) -> None:
        meta = pod.metadata
        self.kube.patch(PODS, meta.name, {"status": status}, namespace=meta.namespace, subresource="status")

    # --- what can be seen ------------------------------------------------------------------------------
    def pods(self) -> list[Pod]:
        """As stored."""
        return self.kube.list(PODS).items

    def lost(self) -> int:
        """How many were refused."""
        return sum(pod.status.phase == "Failed" for pod in self.pods())

    def runs(self) -> int:
        """How many the kubelet has taken."""
        return sum(pod.status.start_time is not None and not is_terminal(pod) for pod in self.pods())

    def describe(self) -> str:
        """The Lease and the pods."""
        leases = self.kube.list(LEASES, Selection(namespace=names.NAMESPACE)).items
        renewals = [f"{lease.spec.renew_time} {lease.metadata.annotations}" for lease in leases]
        pods = [f"{p.metadata.name} {p.status.phase} {p.status.start_time}" for p in self.pods()]
        return "\n".join([micro_time(self.clock.now()), *renewals, *pods])
