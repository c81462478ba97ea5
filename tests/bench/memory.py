"""How much memory many pods take: in the ledger, or just kept. A process of its own that prints bytes."""

import gc
import resource
import sys
from pathlib import Path

import msgspec

from cluster.decide.ledger import Ledger
from cluster.objects.pods import Pod
from tests.bench.child import announce
from tests.bench.measured_cluster import bound_pod


def resident() -> int:
    """Bytes of memory that this process uses."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main(what: str, pods: int) -> None:
    """Measure one of the two."""
    ledger, kept = Ledger(), []
    before = resident()
    for number in range(pods):
        pod = msgspec.json.decode(msgspec.json.encode(bound_pod(number).raw), type=Pod)
        if what == "ledger":
            ledger.apply_pod(pod)
        else:
            kept.append(pod)
    announce(str(resident() - before))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
