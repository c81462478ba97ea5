"""A small cluster for the extender's tests: API server in memory, clock, and a cache that tests fill."""

import itertools
from datetime import timedelta

from cluster import names
from cluster.decide.answer_windows import LARGEST
from cluster.decide.ledger import NodeView
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.lease_writer import micro_time
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.assignment import Assignment, assignment_of
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from extender.binding.assumed_binds import AssumedBinds
from extender.binding.bind import Bind
from extender.binding.keyed_lock import KeyedLock
from extender.state.cluster_state import ClusterState
from extender.verbs.filter import Filter
from extender.verbs.preempt import Preempt, Terms
from extender.wire import ExtenderArgs, ExtenderBindingArgs, ExtenderFilterResult
from tests.fakes.objects import PodBuilder, a100, a6000, a_booking, a_lease, a_node


class Cluster:
    """What the verbs need, and short words for what tests do."""

    def __init__(self, window: int = LARGEST) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.state = ClusterState(self.clock, bind_window=window)
        self.keyed_lock = KeyedLock(self.clock)
        self.filter = Filter(self.state)
        self.leading = True
        self.preempt = Preempt(self.state, self.clock, Terms(home=names.NAMESPACE))
        self.bind = self.binding(patience=0)
        self.assumed_binds = AssumedBinds(self.kube, self.state, self.clock, self.keyed_lock)
        self.pods = self.state.of(PODS)
        self.nodes = self.state.of(NODES)
        self.leases = self.state.of(LEASES)
        self.bookings = self.state.of(BOOKINGS)
        self._versions = itertools.count(1)

    def binding(self, **settings: float) -> Bind:
        """The verb bind; by default as patient as in production, where the clock of this instant is asked."""
        clock, lock = self.clock, self.keyed_lock
        return Bind(self.kube, self.state, clock, lock, leads=lambda: self.leading, **settings)

    def add_node(self, name: str = "n0", *devices: Device) -> None:
        """A node that the extender knows, its agent alive; by default 2 x A100, 2 x A6000."""
        found = devices or (a100(0, name), a100(1, name), a6000(2, name), a6000(3, name))
        self.nodes.upsert(a_node(name, *found, version=next(self._versions)))
        self.renew(name)

    def renew(self, node: str = "n0") -> None:
        """The node's agent shows a sign of life."""
        self.leases.upsert(a_lease(node, renewed=self.clock.now(), version=next(self._versions)))

    def book(self, booking: Booking | None = None, *, days: float = 2) -> Booking:
        """A Booking that runs from now on; by default Alice's, for one A100."""
        now = self.clock.now()
        made = booking or a_booking(start=now, end=now + timedelta(days=days))
        self.bookings.upsert(made)
        return made

    def change(self, name: str, key: str, value: str | None) -> Pod:
        """Somebody writes an annotation on a pod, and the extender sees it."""
        body = {"metadata": {"annotations": {key: value}}}
        pod = self.kube.patch(PODS, name, body, namespace="default")
        self.pods.upsert(pod)
        return pod

    def label(self, name: str, **labels: str) -> Pod:
        """Label a pod, which matters for its placement, and let the extender see the event."""
        pod = self.kube.patch(PODS, name, {"metadata": {"labels": labels}}, namespace="default")
        self.pods.upsert(pod)
        return pod

    def create(self, builder: PodBuilder) -> Pod:
        """A pod on the API server, which the extender has seen."""
        pod = self.kube.put(PODS, {**builder.raw})
        self.pods.upsert(pod)
        return pod

    def ask(self, pod: Pod, *nodes: str) -> ExtenderFilterResult:
        """The verb filter."""
        return self.filter(ExtenderArgs(pod=pod, node_names=nodes or ("n0",)))

    def bind_to(self, pod: Pod, node: str = "n0") -> str:
        """The verb bind; the error, empty when there is none."""
        meta = pod.metadata
        arguments = ExtenderBindingArgs(
            pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node
        )
        return self.bind(arguments).error

    def take(self, name: str = "p", **status: object) -> Pod:
        """The node's kubelet says that it takes the pod, and the extender sees it."""
        pod_status = {"startTime": micro_time(self.clock.now()), **status}
        pod = self.kube.patch(PODS, name, {"status": pod_status}, namespace="default", subresource="status")
        self.pods.upsert(pod)
        return pod

    def reject(self, name: str = "p", reason: str = "UnexpectedAdmissionError") -> Pod:
        """The node's kubelet rejects the pod, and the extender sees it."""
        return self.take(name, phase="Failed", reason=reason, message="Pod was rejected: no healthy devices")

    def stored(self, name: str = "p") -> Pod:
        """The pod as the API server has it."""
        return self.kube.get(PODS, name, namespace="default")

    def given(self, name: str = "p") -> Assignment | None:
        """The devices written on the pod."""
        return assignment_of(self.stored(name))

    def view(self, node: str = "n0") -> NodeView:
        """What the ledger says about a node."""
        with self.state.locked() as ledger:
            return ledger.view(node)

    def bindings(self) -> list[str]:
        """Nodes of the Bindings that were posted, in order."""
        calls = [call for call in self.kube.calls if call.path.endswith("/binding")]
        return [call.body["target"]["name"] for call in calls if call.body]
