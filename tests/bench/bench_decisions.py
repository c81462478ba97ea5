"""What deciding costs by itself, without HTTP: filter per node, bind's choice, the ledger's events."""

from collections.abc import Iterator

import msgspec

from cluster.decide.ledger import Ledger
from cluster.decide.placement import choose
from cluster.decide.wish import wish_of
from cluster.objects.assignment import encode_assignment
from cluster.objects.pods import Pod
from extender.filter import Filter
from extender.wire import Arguments, FilterResult
from tests.bench.child import child
from tests.bench.scene import GPUS, a_state, bound_pod, gpus, question
from tests.bench.table import Floor, Row, percentile
from tests.bench.timing import in_turns, seconds
from tests.fakes.objects import a_node, a_pod

NODES = 2_000
PODS = 10_000


def measure() -> Iterator[Row]:
    """All rows without HTTP."""
    yield _filter()
    yield from _choose()
    yield _ledger()
    yield _memory()


def _filter() -> Row:
    state = a_state(NODES)
    verb, asked = Filter(state), msgspec.json.decode(question(NODES), type=Arguments)
    known = dict.fromkeys(asked.node_names or (), "")

    def floor() -> FilterResult:
        fitting, rejected = [], {}
        for number, name in enumerate(asked.node_names or ()):
            if number % 2:
                rejected[name] = known[name]
            else:
                fitting.append(name)
        return FilterResult(node_names=fitting, failed_and_unresolvable_nodes=rejected)

    ours, least = in_turns(40, lambda: verb(asked), floor)
    return Row(
        "filter's decision, per node",
        1e6 * percentile(ours, 50) / NODES,
        "us",
        Floor(1e6 * percentile(least, 50) / NODES, "a loop with one look-up"),
    )


def _choose() -> Iterator[Row]:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *gpus("n0")))
    view = ledger.view("n0")
    for count in (1, GPUS // 2):
        wish = wish_of(a_pod().asks(count).obj)
        chosen = choose(wish, view)
        ours, least = in_turns(2_000, lambda: choose(wish, view), lambda: encode_assignment(chosen))  # noqa: B023 - called at once
        yield Row(
            f"bind's choice of {count} of {GPUS} GPUs joined by NVLink",
            1e6 * percentile(ours, 50),
            "us",
            Floor(1e6 * percentile(least, 50), "writing the annotation"),
        )


def _ledger() -> Row:
    texts = [msgspec.json.encode(bound_pod(number).raw) for number in range(PODS)]
    decoded: list[Pod] = []
    reading = seconds(lambda: decoded.extend(msgspec.json.decode(text, type=Pod) for text in texts))
    ledger = Ledger()

    def apply() -> None:
        for pod in decoded:
            ledger.apply_pod(pod)

    applying = seconds(apply)
    return Row(
        f"ledger, one event of a pod ({PODS} pods)",
        1e6 * applying / PODS,
        "us",
        Floor(1e6 * reading / PODS, "decoding the event"),
    )


def _memory() -> Row:
    sizes = {}
    for what in ("ledger", "structs"):
        with child("tests.bench.memory", what, str(PODS)) as told:
            sizes[what] = int(told) / 2**20
    return Row(
        f"memory of the ledger, {PODS} pods",
        sizes["ledger"],
        "MiB",
        Floor(sizes["structs"], "the same pods as structs"),
    )
