"""A process that plans on the largest cluster, and prints what that took. See ``bench_plan``."""

import sys

import msgspec

from booking.eviction.holder_cache import HolderCache
from booking.reclaimer.planning.node_candidates import PlanningInputs
from booking.reclaimer.planning.plan import Plan, plan
from booking.reclaimer.snapshot import take
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_live
from tests.bench.bench_plan import Measured
from tests.bench.child import announce
from tests.bench.crowded import a_booked_pod, a_crowd, a_pod_text
from tests.bench.measured_cluster import GPUS
from tests.bench.memory import resident
from tests.bench.table import percentile
from tests.bench.timing import in_turns, seconds

_ROUNDS = 20


def structs(nodes: int) -> int:
    """Bytes of a process that keeps the pods and nothing else."""
    kept = [msgspec.json.decode(a_pod_text(number), type=Pod) for number in range(nodes * GPUS)]
    return resident() if kept else 0


def measured(nodes: int, booked: int) -> Measured:
    """Every time includes taking the snapshot from which the plan is made."""
    cache, clock = a_crowd(nodes)
    holder_cache = HolderCache()

    def planned() -> list[Plan]:
        return plan(take(cache, clock), PlanningInputs(), holder_cache)

    def floor() -> int:
        return sum(is_live(pod) for pod in cache.pods.values())

    def median(expected: int) -> tuple[float, float]:
        assert len(planned()) == expected
        ours, least = in_turns(_ROUNDS, planned, floor)
        return 1e3 * percentile(ours, 50), 1e3 * percentile(least, 50)

    idle, _ = median(0)
    cache.of(PODS).upsert(a_booked_pod(0))
    first = 1e3 * seconds(planned)
    one, least = median(1)
    for number in range(booked):
        cache.of(PODS).upsert(a_booked_pod(number))
    many, _ = median(booked)
    return Measured(floor=least, first=first, one=one, many=many, idle=idle, memory=resident())


if __name__ == "__main__":
    size, what = int(sys.argv[1]), sys.argv[2]
    answer = (
        str(structs(size)) if what == "structs" else msgspec.json.encode(measured(size, int(what))).decode()
    )
    announce(answer)
