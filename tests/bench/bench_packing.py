"""How few GPUs shares take, and how many whole requests still fit then: the choice of nodes and of GPUs.

The pods are those of a trace, whose folder ``TRACES=`` names; without it they are a small synthetic sample.
They come one after the other and stay. As in the product, filter says which nodes fit, prioritize which of
them is best, and the choice of GPUs follows; kube-scheduler's own scores are left out. Of equal nodes the
first one is taken, where kube-scheduler takes any.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cluster.decide.placement import choose
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from extender.state.cluster_state import ClusterState
from extender.verbs.filter import Filter
from extender.verbs.prioritize import Prioritize
from extender.wire import ExtenderArgs
from tests.bench import packing
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.fakes.objects import a_lease, a_node, a_pod, shared_gpu

FOLDER: Final = "TRACES"
"""The environment variable with the folder of the trace."""
_BEST: Final = "the best packing that is found with all pods known in advance"
_PODS: Final = Kind(
    "packing-pods",
    "pods with a share in the rows below: a small synthetic sample, unless TRACES= names the folder of openb",
    "pods",
)
_OPENED: Final = Kind(
    "packing-opened", "GPUs that are opened for these pods", "GPUs", _BEST, Target(ratio=1.02)
)
_RULE: Final = Kind(
    "packing-gpushare",
    "GPUs that gpushare's rule opens for them, replayed as if all GPUs were on one node",
    "GPUs",
    _BEST,
)
_BOUND: Final = Kind("packing-bound", "GPUs below which no packing of them exists", "GPUs")
_WHOLE: Final = Kind(
    "packing-whole",
    "whole requests of the same trace that still fit beside these pods",
    "pods",
    "beside them as gpushare's rule places them",
    Target(ratio=1, at_least=True),
)


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows."""
    folder = os.environ.get(FOLDER)
    trace = packing.read(Path(folder)) if folder else packing.sample()
    best, rule = packing.best_packing(trace.shares), packing.best_fit(trace.shares)
    free = free_after(trace)
    yield _PODS.row(len(trace.shares))
    yield _OPENED.row(sum(trace.nodes) - sum(free), best)
    yield _RULE.row(rule, best)
    yield _BOUND.row(packing.bound(trace.shares))
    theirs = packing.whole_fitting(_first_opened(trace.nodes, rule), trace.whole)
    yield _WHOLE.row(packing.whole_fitting(free, trace.whole), theirs)


def free_after(trace: packing.Trace) -> list[int]:
    """Free GPUs of each node when all pods with a share are placed.

    Raises:
        RuntimeError: one of them fits nowhere.
    """
    clock = FakeClock()
    state = ClusterState(clock)
    nodes = [f"n{number}" for number in range(len(trace.nodes))]
    for node, count in zip(nodes, trace.nodes, strict=True):
        gpus = (shared_gpu(index, node, memory=packing.GPU) for index in range(count))
        state.of(NODES).upsert(a_node(node, *gpus))
        state.of(LEASES).upsert(a_lease(node, renewed=clock.now()))
    verb, prioritize = Filter(state), Prioritize(state, clock)
    for number, size in enumerate(trace.shares):
        pod = a_pod(f"share-{number}").shares(memory=size)
        fitting = tuple(verb(ExtenderArgs(pod=pod.obj, node_names=tuple(nodes))).node_names or ())
        if not fitting:
            raise RuntimeError(f"{size} thousandths of a GPU fit nowhere: the trace needs more nodes.")
        scores = prioritize(ExtenderArgs(pod=pod.obj, node_names=fitting))
        node = max(scores, key=lambda one: one.score).host
        with state.locked() as ledger:
            view = ledger.view(node)
        state.of(PODS).upsert(pod.on(node, choose(state.request(pod.obj), view)).obj)
        state.soft.release(pod.obj.metadata.uid)
    with state.locked() as ledger:
        return [count - len(ledger.view(node).held) for node, count in zip(nodes, trace.nodes, strict=True)]


def _first_opened(nodes: tuple[int, ...], opened: int) -> list[int]:
    """Free GPUs of each node if GPUs are opened node by node."""
    free: list[int] = []
    for count in nodes:
        free.append(max(0, count - opened))
        opened = max(0, opened - count)
    return free


MEASURE: Final = Measure("packing", (_PODS, _OPENED, _RULE, _BOUND, _WHOLE), measure)
