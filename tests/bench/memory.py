"""How much memory many pods or claims take: in the ledger, or just kept. A process that prints bytes."""

import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from cluster import names
from cluster.cache import ClaimOptions, ClusterCache
from cluster.decide.ledger import Ledger
from cluster.fake import FakeClock
from cluster.kube.resources import RESOURCE_CLAIMS
from cluster.objects.claims import ResourceClaim
from cluster.objects.pods import Pod
from tests.bench.child import announce
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
    return lambda number: store.upsert(_claim(number))


def claims_kept() -> Callable[[int], object]:
    """As they are decoded."""
    kept: list[ResourceClaim] = []
    return lambda number: kept.append(_claim(number))


def _pod(number: int) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(bound_pod(number).raw), type=Pod)


def _claim(number: int) -> ResourceClaim:
    """One that a pod of a node with eight GPUs has by a template."""
    uid, pod = (f"{number:08x}-{part}-4b6c-9d1e-2f3a4b5c6d7e" for part in ("1111", "2222"))
    node, name = f"gpu-node-{number // 8:04}", f"train-{number}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod, "controller": True}
    exactly = {
        "deviceClassName": names.DRA_DRIVER,
        "selectors": [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].type == 'gpu'"}}],
        "tolerations": [{"key": names.HELD_TAINT, "operator": "Equal", "value": pod}],
    }
    results = [{"request": "gpu", "driver": names.DRA_DRIVER, "pool": node, "device": f"gpu-{number % 8}"}]
    meta = {"name": f"{name}-gpu-x7k2p", "namespace": f"team-{number % 40}", "uid": uid}
    raw = {
        "metadata": meta | {"resourceVersion": str(100_000 + number), "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod}],
        },
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=ResourceClaim)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
