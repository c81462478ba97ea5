"""What is cached between requests equals a fresh computation, whatever happens in between."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER
from cluster.decide.predicates import RESERVED, rejection
from cluster.decide.request import gpu_request_of
from cluster.fake.clock import FakeClock
from cluster.kube import resources
from cluster.kube.resources import BOOKINGS, LEASES, PODS
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from extender.state.cluster_state import ClusterState
from extender.state.equivalence_cache import MIN_CLASSES, EquivalenceCache
from extender.verbs.filter import Filter
from extender.wire import ExtenderArgs
from tests.fakes.objects import (
    A100,
    A6000,
    EPOCH,
    PodBuilder,
    a100,
    a6000,
    a_booking,
    a_lease,
    a_node,
    a_pod,
)

NODES: Final = ("n0", "n1", "n2")
MIG: Final = "nvidia.com/mig-1g.10gb"
REQUESTING: Final = (
    a_pod("any").asks(1),
    a_pod("many").asks(3),
    a_pod("model").asks(2).wants(A100),
    a_pod("other").asks(1).with_annotation(names.NOT_MODEL, "NVIDIA A100-SXM4-80GB"),
    a_pod("large").asks(1).with_annotation(names.MIN_MEMORY, "60Gi"),
    a_pod("this").asks(1).with_annotation(names.UUID, "GPU-n1-0, GPU-n2-3"),
    a_pod("not-this").asks(2).with_annotation(names.NOT_UUID, "GPU-n0-0,GPU-n0-1"),
    a_pod("part").asks(1, resource=MIG),
    a_pod("profile").asks(1, resource=MIG).wants("1g.10gb"),
    a_pod("two").init("first", 2).asks(1).sidecar("beside", 1),
    a_pod("pinned").asks(1).kept("n1", "GPU-n1-0"),
    a_pod("nothing"),
)


class QuietExtender:
    """An extender without random changes."""

    def __init__(self) -> None:
        self.clock = FakeClock(EPOCH)
        self.state = ClusterState(self.clock)
        self.state.index = EquivalenceCache(self.state, self.clock, verdicts=0)
        self.filter = Filter(self.state)


class RandomExtender(QuietExtender):
    """An extender with random changes."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.version = 0
        self.happenings: tuple[Callable[[], None], ...] = (
            self.node,
            self.node,
            self.pod,
            self.pod,
            self.pod,
            self.lease,
            self.lease,
            self.time,
            self.bind,
            self.bind,
            self.node_gone,
            self.pod_gone,
            self.lease_gone,
            self.relist,
            self.booking,
        )

    def next(self) -> int:
        """A resourceVersion."""
        self.version += 1
        return self.version

    def node(self) -> None:
        name, pick = self.random.choice(NODES), self.random.random
        devices = [
            self.random.choice((a100, a6000))(index, name, health="unhealthy" if pick() < 0.1 else "healthy")
            for index in range(self.random.randrange(5))
        ]
        if pick() < 0.3:
            devices.append(
                a100(7, name, uuid=f"MIG-{name}", model=f"{A100}-MIG-1g.10gb", profile="1g.10gb", memory=9728)
            )
        made = msgspec.to_builtins(
            a_node(name, *devices, version=self.next(), drift="?" if pick() < 0.1 else None)
        )
        made["spec"] = {"unschedulable": pick() < 0.2}
        self.state.of(resources.NODES).upsert(msgspec.convert(made, Node))

    def node_gone(self) -> None:
        self.state.of(resources.NODES).remove(a_node(self.random.choice(NODES), version=self.next()))

    def pod(self) -> None:
        self.state.of(PODS).upsert(self.some_pod())

    def some_pod(self) -> Pod:
        name, node, pick = f"p{self.random.randrange(6)}", self.random.choice(NODES), self.random.random()
        made: PodBuilder = a_pod(name).asks(self.random.randrange(1, 3)).at(self.next())
        device = f"GPU-{node}-{self.random.randrange(4)}"
        if pick < 0.4:
            return made.on(node, {"main": (device,)}).obj
        if pick < 0.5:
            return made.on(node).obj
        if pick < 0.7:
            return made.kept(node, device).obj
        nominee = self.random.choice((made.wants(self.random.choice((A100, A6000))), made.of("alice")))
        return self.random.choice((nominee, nominee.of_priority(5))).nominated_to(node).obj

    def pod_gone(self) -> None:
        self.state.of(PODS).remove(a_pod(f"p{self.random.randrange(6)}").at(self.next()).obj)

    def relist(self) -> None:
        self.state.of(PODS).replace([self.some_pod()], str(self.next()))

    def lease(self) -> None:
        renewed = self.clock.now() - timedelta(seconds=self.random.choice((0, 0, 10, 80)))
        stopping = self.random.random() < 0.1
        lease = a_lease(self.random.choice(NODES), renewed=renewed, version=self.next(), stopping=stopping)
        if self.random.random() < 0.3:  # recreated: its age is read from its text
            meta = msgspec.structs.replace(lease.metadata, uid=f"lease-{self.version}")
            lease = msgspec.structs.replace(lease, metadata=meta)
        self.state.of(LEASES).upsert(lease)

    def booking(self) -> None:
        """One of alice's, which is over soon or has not begun."""
        start, model = self.clock.now() + timedelta(seconds=self.random.choice((-5, 5))), (A100, A6000)
        made = a_booking(
            model=self.random.choice(model), count=2, start=start, end=start + timedelta(seconds=30)
        )
        meta = msgspec.structs.replace(made.metadata, resource_version=str(self.next()))
        self.state.of(BOOKINGS).upsert(msgspec.structs.replace(made, metadata=meta))

    def bind(self) -> None:
        """A bind that was decided, and its end."""
        waiting = [pod for pod in self.state.pods.values() if not pod.spec.node_name]
        with self.state.locked() as ledger:
            for uid in ledger.assumed:
                ledger.forget_assumed(uid)
            for pod in waiting[:1]:
                node = self.random.choice(NODES)
                ledger.assume(pod, node, {"main": (f"GPU-{node}-1",)})

    def lease_gone(self) -> None:
        self.state.of(LEASES).remove(a_lease(self.random.choice(NODES), version=self.next()))

    def time(self) -> None:
        self.clock.advance(self.random.choice((0.0005, 1, 10, 37.5, UNRESPONSIVE_AFTER)))

    def is_right(self, pod: Pod, candidates: tuple[str, ...]) -> bool:
        """Whether filter says of every node what the predicate says, soft reservations aside."""
        result = self.filter(ExtenderArgs(pod=pod, node_names=candidates))
        request = self.state.request(pod)
        with self.state.locked() as ledger:
            own = {uid: found.node for uid, found in ledger.assumed.items()}.get(request.uid)
        # What a bind without an answer has given the pod itself is not in its way.
        node_snapshots = {
            view.name: (view.without(request.uid) if view.name == own else view, agent)
            for view, agent in self.state.snapshot(candidates)
        }
        computed = {name: rejection(request, *snapshot) for name, snapshot in node_snapshots.items()}
        rejected = {name: reason.with_code for name, reason in computed.items() if reason}
        fits = sorted(computed.keys() - rejected.keys())
        reserved = {} if request.hold else self.state.soft.of_others(request.uid)
        unreserved = [
            name
            for name in fits
            if name not in reserved
            or not rejection(
                request, node_snapshots[name][0].holding(reserved[name]), node_snapshots[name][1]
            )
        ]
        if unreserved:
            rejected |= {name: RESERVED.with_code for name in fits if name not in unreserved}
        return (
            result.failed_and_unresolvable_nodes == rejected
            and sorted(result.node_names) == (unreserved or fits)
            and not result.failed_nodes
        )


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_filter_answers_as_a_fresh_computation_would(random: Random) -> None:
    extender = RandomExtender(random)
    for _ in range(40):
        for _ in range(extender.random.randrange(4)):
            extender.random.choice(extender.happenings)()
        pods = [pod.obj for pod in extender.random.sample(REQUESTING, 3)]
        waiting = [pod for pod in extender.state.pods.values() if not pod.spec.node_name]
        for pod in [*pods, *waiting[:2]]:
            candidates = extender.random.sample((*NODES, "unknown"), extender.random.randrange(5))
            assert extender.is_right(pod, tuple(candidates))
            assert extender.is_right(pod, tuple(extender.random.sample(NODES, len(NODES))))


def test_an_agent_that_becomes_unresponsive_without_any_event_gets_no_pod_from_that_instant_on() -> None:
    extender = QuietExtender()
    extender.state.of(resources.NODES).upsert(a_node("n0", a100(0)))
    extender.state.of(LEASES).upsert(a_lease("n0", renewed=extender.clock.now()))
    pod = a_pod().asks(1).obj
    args = ExtenderArgs(pod=pod, node_names=("n0",))
    assert extender.filter(args).node_names == ["n0"]
    extender.clock.advance(UNRESPONSIVE_AFTER - 0.25)
    assert extender.filter(args).node_names == ["n0"]
    extender.clock.advance(0.25)
    assert extender.filter(args).node_names == []
    extender.state.of(LEASES).upsert(a_lease("n0", renewed=extender.clock.now(), version=2))
    assert extender.filter(args).node_names == ["n0"]


def test_the_number_of_equivalence_classes_is_limited() -> None:
    extender = QuietExtender()
    for count in range(1, 3 * MIN_CLASSES):
        with extender.state.index.class_of(gpu_request_of(a_pod().asks(count).obj)):
            pass
    assert len(extender.state.index) == MIN_CLASSES


def test_equal_pods_share_an_equivalence_class_and_different_requests_do_not() -> None:
    first, second = gpu_request_of(a_pod("p").asks(1).obj), gpu_request_of(a_pod("q").asks(1).obj)
    keys = {gpu_request_of(pod.obj).key for pod in REQUESTING}
    assert first.key == second.key
    # A hold is no part of it: "pinned" wants what "any" wants.
    assert len(keys) == len(REQUESTING) - 1


def test_a_change_is_reported_to_every_reader() -> None:
    extender = QuietExtender()
    for name in NODES:
        extender.state.of(resources.NODES).upsert(a_node(name, a100(0, name)))
    everything, number = extender.state.index.changed(-1)
    extender.state.of(resources.NODES).upsert(a_node("n1", a100(0, "n1"), a100(1, "n1"), version=2))
    assert everything == frozenset(NODES)
    assert extender.state.index.changed(number)[0] == extender.state.index.changed(number)[0] == {"n1"}
