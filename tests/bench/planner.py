"""A process that plans on the largest cluster, and prints what that took. See ``bench_plan``."""

import sys

import msgspec

from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan, plan
from booking.controller.reclaimer.snapshot import take
from booking.eviction.holder_cache import HolderCache
from cluster.cache import ClusterCache
from cluster.decide.eviction.sharer_selection import Sharer, cheapest_sharers
from cluster.decide.eviction.victim_selection import Victim
from cluster.decide.ledger.amounts import NO_USE, Holding
from cluster.fake.clock import FakeClock
from cluster.kube.resources import PODS, RESOURCE_CLAIMS
from cluster.objects.pods import Pod, is_live
from cluster.process.garbage import freeze_objects
from tests.bench.bench_plan import Measured, MeasuredClaims, MeasuredShares
from tests.bench.child import announce
from tests.bench.crowded import (
    BOOKED,
    a_booked_pod,
    a_booked_share,
    a_claim,
    a_claimed_crowd,
    a_claiming_pod,
    a_crowd,
    a_pod_text,
    a_shared_crowd,
)
from tests.bench.measured_cluster import GPUS
from tests.bench.memory import resident
from tests.bench.table import percentile
from tests.bench.timing import in_turns, seconds
from tests.fakes.objects import shared_gpu
from tests.seeded import seeded

_ROUNDS = 20


def structs(nodes: int) -> int:
    """Bytes of a process that keeps the pods and nothing else."""
    kept = [msgspec.json.decode(a_pod_text(number), type=Pod) for number in range(nodes * GPUS)]
    return resident() if kept else 0


def measured(nodes: int, booked: int) -> Measured:
    """Every time includes taking the snapshot from which the plan is made."""
    cache, clock = _synced(a_crowd(nodes))
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


def of_shares(nodes: int) -> MeasuredShares:
    """The same where GPUs are shared, and how long the choice on one GPU with 16 sharers takes."""
    cache, clock = _synced(a_shared_crowd(nodes))
    holder_cache = HolderCache()

    def planned() -> list[Plan]:
        return plan(take(cache, clock), PlanningInputs(), holder_cache)

    def floor() -> int:
        return sum(is_live(pod) for pod in cache.pods.values())

    planned()
    cache.of(PODS).upsert(a_booked_share(0))
    first = 1e3 * seconds(planned)
    assert len(planned()) == 1
    ours, least = in_turns(_ROUNDS, planned, floor)
    times = [seconds(lambda n=number: _sharers(n)) for number in range(200)]
    return MeasuredShares(
        floor=1e3 * percentile(least, 50),
        first=first,
        one=1e3 * percentile(ours, 50),
        sharers=1e6 * percentile(times, 50),
    )


def of_claims(nodes: int) -> MeasuredClaims:
    """The same where GPUs are given by claims."""
    cache, clock = _synced(a_claimed_crowd(nodes))
    holder_cache = HolderCache()

    def planned() -> list[Plan]:
        return plan(take(cache, clock), PlanningInputs(), holder_cache)

    def floor() -> int:
        return sum(is_live(pod) for pod in cache.pods.values())

    def appear() -> None:
        cache.of(RESOURCE_CLAIMS).upsert(a_claim(nodes * GPUS))
        cache.of(PODS).upsert(a_claiming_pod(nodes * GPUS, BOOKED))

    planned()
    judged = 1e3 * seconds(appear)
    first = 1e3 * seconds(planned)
    assert len(planned()) == 1
    ours, least = in_turns(_ROUNDS, planned, floor)
    return MeasuredClaims(
        floor=1e3 * percentile(least, 50), judged=judged, first=first, one=1e3 * percentile(ours, 50)
    )


def _synced(crowd: tuple[ClusterCache, FakeClock]) -> tuple[ClusterCache, FakeClock]:
    """As in the controller after its first synchronisation."""
    freeze_objects()
    return crowd


def _sharers(seed: int) -> None:
    random, device = seeded(seed), shared_gpu(0)
    sharers = [
        Sharer(
            Victim(f"p{number}", (device.uuid,), random.randrange(10**9), 0),
            Holding(device.uuid, random.choice((2000, 4000, 5000)), mode="time-slice"),
        )
        for number in range(16)
    ]
    cheapest_sharers(device, NO_USE, sharers, Holding(device.uuid, 40_000, mode="time-slice"))


if __name__ == "__main__":
    size, what = int(sys.argv[1]), sys.argv[2]
    match what:
        case "structs":
            announce(str(structs(size)))
        case "shares":
            announce(msgspec.json.encode(of_shares(size)).decode())
        case "claims":
            announce(msgspec.json.encode(of_claims(size)).decode())
        case _:
            announce(msgspec.json.encode(measured(size, int(what))).decode())
