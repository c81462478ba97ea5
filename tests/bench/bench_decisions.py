"""What decisions cost by themselves, without HTTP: filter per node, bind's choice, the ledger's events."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from cluster.decide.ledger import Ledger
from cluster.decide.placement import choose
from cluster.decide.request import gpu_request_of
from cluster.kube import resources
from cluster.objects.assignment import encode_assignment
from cluster.objects.pods import Pod
from extender.verbs.filter import Filter
from extender.wire import ExtenderArgs, ExtenderFilterResult
from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.measured_cluster import (
    GPUS,
    HELD,
    a_state,
    bound_pod,
    filter_request,
    gpus,
    node_names,
    uuids_of,
)
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import in_turns, seconds
from tests.fakes.objects import PodBuilder, a_node, a_pod

NODES = 2_000
PODS = 10_000
CLAIMS: Final = 40_000
CACHED: Final = 100
BINDS: Final = 1_000
_DECISION: Final = Kind("filter-decision", "filter's decision, per node", "us", "a loop with one look-up")
_CHOICE: Final = {
    count: Kind(
        f"bind-choice-{count}",
        f"bind's choice of {count} of {GPUS} GPUs joined by NVLink",
        "us",
        "writing the annotation",
    )
    for count in (1, GPUS // 2)
}
_EVENT: Final = Kind("ledger-event", f"ledger, one event of a pod ({PODS} pods)", "us", "decoding the event")
BOUND: Final = Kind(
    "event-bound",
    f"the event of a bound pod with a GPU, in the extender ({CACHED} nodes)",
    "us",
    "the same of a pod without a GPU",
)
_CLAIMS: Final = Kind(
    "claims-memory",
    f"memory of {CLAIMS} claims, in the extender",
    "MiB",
    "the same claims as structs",
    target=Target(value=25),
)
_SIZE: Final = Kind("ledger-memory", f"memory of the ledger, {PODS} pods", "MiB", "the same pods as structs")


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows that need no HTTP."""
    yield _filter()
    yield from _choose()
    yield _ledger()
    yield _bound()
    yield _memory(_SIZE, PODS, "ledger", "structs")
    yield _memory(_CLAIMS, CLAIMS, "claims", "claim-structs")


def _filter() -> Row:
    state = a_state(NODES)
    verb, request = Filter(state), msgspec.json.decode(filter_request(NODES), type=ExtenderArgs)
    known = dict.fromkeys(request.node_names or (), "")

    def floor() -> ExtenderFilterResult:
        fitting, rejected = [], {}
        for number, name in enumerate(request.node_names or ()):
            if number % 2:
                rejected[name] = known[name]
            else:
                fitting.append(name)
        return ExtenderFilterResult(node_names=fitting, failed_and_unresolvable_nodes=rejected)

    ours, least = in_turns(40, lambda: verb.answer_logged(request), floor)
    return _DECISION.row(*(1e6 * percentile(times, 50) / NODES for times in (ours, least)))


def _choose() -> Iterator[Row]:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *gpus("n0")))
    view = ledger.view("n0")
    for count, kind in _CHOICE.items():
        request = gpu_request_of(a_pod().asks(count).obj)
        chosen = choose(request, view)
        ours, least = in_turns(
            2_000,
            lambda request=request: choose(request, view),
            lambda chosen=chosen: encode_assignment(chosen),
        )
        yield kind.row(1e6 * percentile(ours, 50), 1e6 * percentile(least, 50))


def _ledger() -> Row:
    texts = [msgspec.json.encode(bound_pod(number).raw) for number in range(PODS)]
    decoded: list[Pod] = []
    reading = seconds(lambda: decoded.extend(msgspec.json.decode(text, type=Pod) for text in texts))
    ledger = Ledger()

    def apply() -> None:
        for pod in decoded:
            ledger.apply_pod(pod)

    applying = seconds(apply)
    return _EVENT.row(1e6 * applying / PODS, 1e6 * reading / PODS)


def _bound() -> Row:
    """Each pod was seen before it was bound; a node's last GPU is free again before the next one gets it."""
    state, free = a_state(CACHED), {name: uuids_of(name)[HELD] for name in node_names(CACHED)}
    pods = state.of(resources.PODS)
    versions = itertools.count(1_000, 10)

    def taken(made: PodBuilder, name: str, devices: dict[str, tuple[str, ...]] | None) -> float:
        version = next(versions)
        pods.upsert(made.at(version).obj)
        bound = made.on(name, devices).at(version + 1).obj
        took = seconds(partial(pods.upsert, bound))
        pods.remove(bound)
        return took

    ours, least = [], []
    for number, (name, uuid) in enumerate(itertools.islice(itertools.cycle(free.items()), BINDS)):
        ours.append(taken(a_pod(f"gpu-{number}").asks(1), name, {"main": (uuid,)}))
        least.append(taken(a_pod(f"plain-{number}"), name, None))
    return BOUND.row(1e6 * percentile(ours, 50), 1e6 * percentile(least, 50))


def _memory(kind: Kind, number: int, *ways: str) -> Row:
    sizes: list[float] = []
    for what in ways:
        with child("tests.bench.memory", what, str(number)) as answer:
            sizes.append(int(answer) / 2**20)
    return kind.row(*sizes)


MEASURE: Final = Measure("decisions", (_DECISION, *_CHOICE.values(), _EVENT, BOUND, _SIZE, _CLAIMS), measure)
