"""How soon pods are scheduled again when the leading pair of kube-scheduler and extender is killed.

The floor is the Lease of the dead leader, which has to expire before another one may lead. The other
scheduler checks it every one to two seconds.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.resources import LEASES
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.daemons import Daemon
from devcluster.demo.access import administrator
from devcluster.product import Parts
from devcluster.wait import poll
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import Ground
from tests.bench.rows import Kind, Row, Target

ROUNDS: Final = 5
PATIENCE: Final = 120.0
_KIND: Final = Kind(
    "takeover",
    "the leading kube-scheduler and its extender killed (-9), another pair stands by: until the next pod"
    f" is bound, median of {ROUNDS}",
    "s",
    "the Lease of the dead leader",
    target=Target(ratio=1.2),
)
Pair = tuple[Daemon, Daemon]
"""An extender and the kube-scheduler that asks it."""


def measure(lab: Lab) -> Iterator[Row]:
    """With a second pair, the leading pair is killed and restarted in each round."""
    standing = lab.standing
    parts, kube = standing.parts, administrator(standing.cluster)
    pairs = [(parts.extender(), parts.scheduler()), parts.start_pair(1)]
    parts.await_ready()
    times = [_once(parts, kube, standing.ground, pairs, f"takeover-{number}") for number in range(ROUNDS)]
    lease = kube.get(LEASES, names.SCHEDULER_LEASE, namespace=names.NAMESPACE)
    for daemon in reversed(pairs[1]):
        daemon.kill()
    _leading(kube, pairs[:1])
    yield _KIND.row(median(times), float(lease.spec.lease_duration_seconds or 0))


def _once(parts: Parts, kube: Kube, ground: Ground, pairs: Sequence[Pair], pod: str) -> float:
    leading = _leading(kube, pairs)
    for daemon in reversed(leading):
        daemon.kill()
    (birth,) = ground.bear(probe.pod(pod, [probe.container("main", gpus=1)]))
    for daemon in leading:
        daemon.restart()
    parts.await_ready()
    ground.remove(pod)
    return birth.bound


def _leading(kube: Kube, pairs: Sequence[Pair]) -> Pair:
    """The pair whose scheduler renews the Lease from now on."""
    now = SystemClock().now()

    def found() -> Pair | None:
        spec = kube.get(LEASES, names.SCHEDULER_LEASE, namespace=names.NAMESPACE).spec
        if spec.renew_time is None or spec.renew_time <= now:
            return None
        holder = spec.holder_identity or ""
        return next((pair for pair in pairs if holder.startswith(f"{pair[1].name}_")), None)

    pair = poll(found, seconds=PATIENCE)
    if pair is None:
        raise RuntimeError(f"None of {[scheduler.name for _, scheduler in pairs]} leads.")
    return pair


MEASURE: Final = Measure("takeover", (_KIND,), measure, on_cluster=True)
