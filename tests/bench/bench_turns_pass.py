"""One pass of the controller over a long line: snapshot, lines, accounts, order and one turn; no writes."""

from collections.abc import Callable
from datetime import timedelta
from time import process_time
from typing import Final

from booking.controller.reclaimer.fair_shares.record import RecordStore
from booking.controller.reclaimer.fair_shares.turns import Turns
from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.snapshot import take
from booking.eviction.holder_cache import HolderCache
from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.pods import Pod
from tests.bench.bench_fair_shares import NODES as NODES_COUNT
from tests.bench.bench_fair_shares import ROUNDS, USERS, WAITING
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.simulated import GPUS
from tests.bench.table import percentile
from tests.fakes.objects import A100, EPOCH, a100, a_lease, a_node, a_pod

_PASS: Final = Kind(
    "shares-turns",
    f"the controller's pass that gives one of {WAITING} waiting pods of {USERS} users its turn,"
    f" {NODES_COUNT} nodes: processor time",
    "ms",
    "looking at every pod once",
    Target(value=20),
)


def measure(_lab: Lab) -> list[Row]:
    """All GPUs are held; each round one is freed, and its pod comes back after it."""
    clock = FakeClock(EPOCH)
    cache = _full(clock)
    turns = Turns(clock, FairShares, RecordStore(FakeKube(clock), names.NAMESPACE))
    holders = HolderCache()

    def once() -> int:
        snapshot = take(cache, clock, gives_turns=True)
        return len(turns.plans(snapshot, PlanningInputs(), holders))

    assert once() == 0
    ours: list[float] = []
    for number in range(ROUNDS):
        cache.of(PODS).remove(cache.pods[f"uid-held-{number}"])
        ours.append(_processor(once, 1))
        cache.of(PODS).upsert(_holder(f"again-{number}", number))
        assert once() == 0
    least = [_processor(lambda: sum(bool(pod.metadata.uid) for pod in cache.pods.values())) for _ in ours]
    return [_PASS.row(1e3 * percentile(ours, 50), 1e3 * percentile(least, 50))]


def _full(clock: FakeClock) -> ClusterCache:
    cache = ClusterCache(clock)
    for index in range(NODES_COUNT):
        node = f"n{index:03}"
        cache.of(NODES).upsert(a_node(node, *(a100(n, node) for n in range(GPUS))))
        cache.of(LEASES).upsert(a_lease(node, renewed=clock.now()))
        for slot in range(GPUS):
            number = index * GPUS + slot
            cache.of(PODS).upsert(_holder(f"held-{number}", number))
    for number in range(WAITING):
        waiting = a_pod(f"p{number}").of(f"u{number % USERS}").asks(1).wants(A100).behind(names.QUEUE)
        cache.of(PODS).upsert(waiting.created(clock.now() - timedelta(seconds=WAITING - number)).obj)
    return cache


def _holder(name: str, number: int) -> Pod:
    """A pod that has this GPU of all."""
    node, slot = f"n{number // GPUS:03}", number % GPUS
    return a_pod(name).of(f"u{number % USERS}").asks(1).on(node, {"main": (f"GPU-{node}-{slot}",)}).obj


def _processor(call: Callable[[], object], expected: int | None = None) -> float:
    began = process_time()
    found = call()
    took = process_time() - began
    assert expected in (None, found)
    return took


MEASURE: Final = Measure("turns-pass", (_PASS,), measure)
