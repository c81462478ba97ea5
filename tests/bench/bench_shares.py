"""Filter for pods with a share of a GPU, over HTTP, in turns with filter for pods with whole GPUs.

Sizes of shares are many, so there are rows for pods of a size that no pod had before: for them every node is
judged. Beside them stand pods with whole GPUs that differ from all before them in their priority.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import LEASES, NODES, PODS
from extender.binding.bind import Bind
from extender.binding.keyed_lock import KeyedLock
from extender.state.cluster_state import ClusterState
from extender.verbs.filter import Filter
from extender.wire import ExtenderArgs, ExtenderBindingArgs, ExtenderFilterResult
from tests.bench.bench_filter import Scheduler
from tests.bench.child import child
from tests.bench.cluster_of_shares import LARGEST, share_body, whole_body
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.measured_cluster import GPUS
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import in_turns
from tests.fakes.objects import a_lease, a_node, a_pod, shared_gpu

NODES_COUNT: Final = 1_000
CALLS: Final = 200
WARM_UP: Final = CALLS // 10
BOUND: Final = 16
"""Pods whose API writes are counted."""
_SIZE: Final = f"{NODES_COUNT} nodes, {NODES_COUNT * GPUS} pods with a share, p50"
_TARGET: Final = Target(value=4, ratio=1.5)
_FLOOR: Final = "a pod with a whole GPU, as many nodes and pods with whole GPUs"
_NEW_FLOOR: Final = f"{_FLOOR}, of a priority that none had before"
_KNOWN: Final = Kind("filter-share-p50", f"filter over HTTP for a share, {_SIZE}", "ms", _FLOOR, _TARGET)
_BESIDE: Final = Kind(
    "filter-share-new-p50",
    f"the same for a share of a new size, with room on GPUs that are shared already, {_SIZE}",
    "ms",
    _NEW_FLOOR,
    _TARGET,
)
_OPENS: Final = Kind(
    "filter-share-opens-p50",
    f"the same for a share of a new size that needs a free GPU, {_SIZE}",
    "ms",
    _NEW_FLOOR,
    _TARGET,
)
_REFUSED: Final = Kind(
    "filter-share-refused-p50",
    f"the same for shares of a new size on two GPUs, with room nowhere, {_SIZE}",
    "ms",
    f"{_NEW_FLOOR}, and two GPUs of one node, which are free nowhere",
    _TARGET,
)
_WRITES: Final = Kind(
    "share-writes",
    f"API writes of the extender per pod with a share, from filter to bind, mean of {BOUND}",
    "calls",
    target=Target(value=1),
)
_READING: Final = frozenset({"GET", "LIST", "WATCH"})
Body = Callable[[int], bytes]
"""Number of a question -> the question."""


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows."""
    size = str(NODES_COUNT)
    with (
        child("tests.bench.filter_server", size, "shared") as shared,
        child("tests.bench.filter_server", size) as whole,
    ):
        ours, theirs = Scheduler(int(shared), NODES_COUNT), Scheduler(int(whole), NODES_COUNT)
        fitting = NODES_COUNT - NODES_COUNT // 2
        for kind, share, floor, fits in (
            (_KNOWN, lambda _: _share(1000), lambda _: _whole(1000), fitting),
            (_BESIDE, lambda number: _share(1001 + number), lambda number: _whole(2000 + number), fitting),
            (_OPENS, lambda number: _share(LARGEST + number), lambda number: _whole(3000 + number), fitting),
            (_REFUSED, lambda number: _share(LARGEST + number, 2), lambda number: _whole(number, 2), 0),
        ):
            yield _row(kind, (ours, share), (theirs, floor), fits)
        ours.close()
        theirs.close()
    yield _WRITES.row(writes() / BOUND)


def _share(memory: int, gpus: int = 1) -> bytes:
    return share_body(NODES_COUNT, memory, gpus)


def _whole(priority: int, gpus: int = 1) -> bytes:
    return whole_body(NODES_COUNT, priority, gpus)


def _row(kind: Kind, ours: tuple[Scheduler, Body], theirs: tuple[Scheduler, Body], fitting: int) -> Row:
    """The medians of both; each question is asked once, unless all of them are the same."""
    works = []
    for scheduler, body in (ours, theirs):
        checked(scheduler.ask("/filter", body(0)), fitting)
        questions = iter([body(1 + number) for number in range(CALLS + WARM_UP)])
        works.append(lambda s=scheduler, q=questions: s.ask("/filter", next(q)))
    times, floor = in_turns(CALLS, *works)
    return kind.row(1000 * percentile(times, 50), 1000 * percentile(floor, 50))


def checked(content: bytes, fitting: int) -> None:
    """Check that so many nodes fit.

    Raises:
        RuntimeError: others do.
    """
    answer = msgspec.json.decode(content, type=ExtenderFilterResult)
    if answer.error or len(answer.node_names or ()) != fitting:
        found = answer.error or f"{len(answer.node_names or ())} nodes fit, not {fitting}"
        raise RuntimeError(f"{found}; what is measured is not filter's work.")


def writes() -> int:
    """Calls by which the extender changes something while pods with a share are bound one after the other."""
    clock = FakeClock()
    kube, state = FakeKube(clock), ClusterState(clock)
    state.of(NODES).upsert(a_node("n0", *(shared_gpu(index) for index in range(GPUS))))
    state.of(LEASES).upsert(a_lease("n0", renewed=clock.now()))
    verb = Filter(state)
    bind = Bind(kube, state, clock, KeyedLock(clock), leads=lambda: True, patience=0)
    for number in range(BOUND):
        pod = kube.put(PODS, {**a_pod(f"share-{number}").shares(memory=3000, aliyun=3).raw})
        state.of(PODS).upsert(pod)
        verb(ExtenderArgs(pod=pod, node_names=("n0",)))
        meta = pod.metadata
        error = bind(
            ExtenderBindingArgs(pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node="n0")
        ).error
        if error:
            raise RuntimeError(f"A pod with a share is not bound: {error}")
        taken = {"status": {"startTime": clock.now().isoformat()}}
        state.of(PODS).upsert(
            kube.patch(PODS, meta.name, taken, namespace=meta.namespace, subresource="status")
        )
    return sum(call.verb not in _READING and not call.path.endswith("/status") for call in kube.calls)


MEASURE: Final = Measure("shares", (_KNOWN, _BESIDE, _OPENS, _REFUSED, _WRITES), measure)
