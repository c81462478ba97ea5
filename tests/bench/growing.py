"""A process that has one cluster in memory, as the extender or as the controller, and prints what that takes.

``python -m tests.bench.growing extender|controller NODES``; see ``bench_growth``.
"""

import sys
from functools import partial
from importlib import import_module
from itertools import count
from typing import Final

import msgspec

from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import plan
from booking.controller.reclaimer.snapshot import take
from booking.eviction.holder_cache import HolderCache
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from extender.binding.bind_decision import BindDecisions
from extender.state.cluster_state import ClusterState
from extender.verbs.filter import Filter
from extender.wire import ExtenderArgs
from tests.bench.bench_growth import Grown
from tests.bench.child import announce
from tests.bench.crowded import BOOKED, a_booked_pod, a_node_text, a_pod_text
from tests.bench.measured_cluster import GPUS, HELD, filter_requests, node_names
from tests.bench.memory import resident
from tests.bench.table import percentile
from tests.bench.timing import seconds
from tests.fakes.objects import A100, EPOCH, a_booking, a_lease, a_pod

_ROUNDS = 30
_EVENTS = 300


def filled(cache: ClusterCache, nodes: int, held: int) -> float:
    """Seconds to decode and to take in all nodes and pods; ``held``: GPUs of each node that pods have."""
    spent = 0.0
    for number, name in enumerate(node_names(nodes)):
        node = a_node_text(name)
        pods = [a_pod_text(number * GPUS + index) for index in range(held)]
        spent += seconds(partial(_taken_in, cache, node, pods))
        cache.of(LEASES).upsert(a_lease(name, renewed=EPOCH))
    return spent


def _taken_in(cache: ClusterCache, node: bytes, pods: list[bytes]) -> None:
    cache.of(NODES).upsert(msgspec.json.decode(node, type=Node))
    for pod in pods:
        cache.of(PODS).upsert(msgspec.json.decode(pod, type=Pod))


def extender(nodes: int) -> Grown:
    """One GPU of each node is free."""
    clock = FakeClock(EPOCH)
    state = ClusterState(clock)
    cold = filled(state, nodes, HELD)
    verb, decisions = Filter(state), BindDecisions(state, clock)
    requests = filter_requests(nodes)

    def question(request: bytes) -> None:
        answer = verb(msgspec.json.decode(request, type=ExtenderArgs))
        assert len(answer.node_names or ()) == nodes
        msgspec.json.encode(answer)

    question(requests[0])
    filters = [seconds(partial(question, request)) for request in (requests * 2)[:_ROUNDS]]
    versions = count(1000)

    def event(number: int) -> None:
        pod = msgspec.json.decode(a_pod_text(number * GPUS), type=Pod)
        changed = msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, resource_version=str(next(versions)))
        )
        events.append(seconds(lambda: state.of(PODS).upsert(changed)))

    events: list[float] = []
    for number in range(_EVENTS):
        event(number % nodes)
    names = node_names(nodes)
    binds = [
        seconds(partial(decisions.make, a_pod(f"new-{place}").asks(1).obj, names[place]))
        for place in range(_ROUNDS)
    ]
    return Grown(
        cold=cold,
        memory=resident(),
        filter=1e3 * percentile(filters, 50),
        bind=1e6 * percentile(binds, 50),
        event=1e6 * percentile(events, 50),
    )


def controller(nodes: int) -> Grown:
    """Every GPU is held, and one booked pod waits."""
    clock = FakeClock(EPOCH)
    cache = ClusterCache(clock)
    cache.keep_scheduling_objects()
    cold = filled(cache, nodes, GPUS)
    cache.of(BOOKINGS).upsert(a_booking("b-1", user=BOOKED, model=A100, count=nodes * GPUS))
    cache.of(PODS).upsert(a_booked_pod(0))
    holder_cache = HolderCache()

    def planned() -> None:
        assert len(plan(take(cache, clock), PlanningInputs(), holder_cache)) == 1

    cold += seconds(planned)
    plans = [seconds(planned) for _ in range(_ROUNDS)]
    return Grown(cold=cold, memory=resident(), plan=1e3 * percentile(plans, 50))


PARTS: Final = {"extender": "extender.__main__", "controller": "booking.controller.__main__"}
"""Loaded, too: their libraries are part of what a process takes."""

if __name__ == "__main__":
    import_module(PARTS[sys.argv[1]])
    grown = {"extender": extender, "controller": controller}[sys.argv[1]](int(sys.argv[2]))
    announce(msgspec.json.encode(grown).decode())
