"""How much memory many pods or claims take: in the ledger, or just kept. A process that prints bytes."""

import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from cluster.cache import ClaimOptions, ClusterCache
from cluster.decide.ledger import Ledger
from cluster.fake import FakeClock
from cluster.kube.resources import RESOURCE_CLAIMS
from cluster.objects.claims import ResourceClaim
from cluster.objects.pods import Pod
from tests.bench.child import announce
from tests.bench.crowded import a_claim
from tests.bench.measured_cluster import bound_pod


def resident() -> int:
    """Bytes of memory that this process uses."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main(what: str, number: int) -> None:
    """Measure one of the ways to keep so many."""
    take = {
        "ledger": pods_in_ledger,
        "structs": pods_kept,
        "claims": claims_in_cache,
        "claim-structs": claims_kept,
    }
    keep = take[what]()
    keep(0)  # what the first one loads is no part of it
    before = resident()
    for each in range(1, number + 1):
        keep(each)
    announce(str(resident() - before))


def pods_in_ledger() -> Callable[[int], object]:
    """As the ledger has them."""
    ledger = Ledger()
    return lambda number: ledger.apply_pod(_pod(number))


def pods_kept() -> Callable[[int], object]:
    """As they are decoded."""
    kept: list[Pod] = []
    return lambda number: kept.append(_pod(number))


def claims_in_cache() -> Callable[[int], object]:
    """As the extender has them: in the cache and in the ledger."""
    store = ClusterCache(FakeClock(), claims=ClaimOptions()).of(RESOURCE_CLAIMS)
    return lambda number: store.upsert(a_claim(number, _node(number)))


def claims_kept() -> Callable[[int], object]:
    """As they are decoded."""
    kept: list[ResourceClaim] = []
    return lambda number: kept.append(a_claim(number, _node(number)))


def _node(number: int) -> str:
    return f"gpu-node-{number // 8:04}"


def _pod(number: int) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(bound_pod(number).raw), type=Pod)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
