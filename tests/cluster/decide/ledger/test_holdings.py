"""What is written on a pod, and what of it counts."""

import pytest

from cluster import names
from cluster.decide.ledger import WHOLE, Ledger
from cluster.decide.ledger.view import NodeView
from tests.cluster.decide.ledger.test_ledger import G0, G1, G2, G3, a_ledger
from tests.fakes.objects import PodBuilder, a100, a_node, a_pod


def test_a_pod_that_names_a_device_which_the_node_does_not_have_holds_an_unknown_one() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(2).on("n0", {"main": (G0, "GPU-lost")}).obj)

    assert ledger.view("n0").held == {G0: WHOLE, "GPU-lost": WHOLE}
    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 1}


def test_as_long_as_nobody_knows_the_devices_of_a_node_a_pod_is_believed() -> None:
    ledger = Ledger()

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).obj)
    assert ledger.view("n0").held == {G0: WHOLE}

    ledger.apply_node(a_node("n0", a100(0), a100(1)))
    assert ledger.view("n0").held == {G0: WHOLE}
    assert ledger.view("n0").unknown == {}


@pytest.mark.parametrize(
    ("builder", "held", "unknown"),
    [
        (a_pod(), {}, {}),
        (a_pod().asks(1), {G0: WHOLE}, {}),
        (a_pod().asks(1, container="other"), {}, {names.GPU_RESOURCE: 1}),
        (a_pod().asks(2), {G0: WHOLE, G1: WHOLE}, {}),
    ],
    ids=["asks for none", "asks for one", "names another container", "asks for two"],
)
def test_l1_an_assignment_counts_for_containers_that_ask_and_up_to_what_they_ask(
    builder: PodBuilder, held: dict[str, int], unknown: dict[str, int]
) -> None:
    """Whoever wrote it: a pod that asks for no GPU must not empty a node of them."""
    ledger = a_ledger()

    ledger.apply_pod(builder.on("n0", {"main": (G0, G0, G1, G2, G3)}).obj)

    view = ledger.view("n0")
    assert (view.held, view.unknown) == (held, unknown)


ALL = (G0, G1, G2, G3)
MIG, OTHER = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


@pytest.mark.parametrize(
    ("builder", "assignment", "held"),
    [
        (
            a_pod().init("a", 1).init("b", 1).init("c", 1).asks(1),
            {"a": (G0,), "b": (G1,), "c": (G2,), "main": (G3,)},
            {G0},
        ),
        (a_pod().init("a", 1).init("b", 2).asks(1), {"main": (G3,), "b": (G1, G2), "a": (G0,)}, {G0, G1}),
        (a_pod().init("a", 2).asks(2), {"a": (G0, G1), "main": (G2, G3)}, {G0, G1}),
        (a_pod().sidecar("a", 1).init("b", 1).asks(1), {"a": (G0,), "b": (G1,), "main": (G2,)}, {G0, G1}),
        (a_pod().init("a", 1).sidecar("b", 1).asks(1), {"a": (G0,), "b": (G0,), "main": (G2,)}, {G0, G2}),
        (a_pod().asks(1, container="x").asks(1, container="y"), {"x": ALL, "y": ALL[1:]}, {G0, G1}),
    ],
    ids=[
        "init containers hand on what they have",
        "the most that one init container asks for",
        "all that an init container has is handed on",
        "a sidecar keeps its own",
        "a sidecar takes what is handed on, and keeps it",
        "app containers have their own",
    ],
)
def test_l1_an_assignment_counts_up_to_what_the_pod_can_hold_in_all(
    builder: PodBuilder, assignment: dict[str, tuple[str, ...]], held: set[str]
) -> None:
    ledger = a_ledger()

    ledger.apply_pod(builder.on("n0", assignment).obj)

    assert _held(ledger.view("n0")) == (held, {})


@pytest.mark.parametrize(
    ("builder", "uuids", "held", "unknown"),
    [
        (a_pod().asks(1, resource=MIG), (G1,), set(), {MIG: 1}),
        (a_pod().asks(1, resource=MIG).asks(1), (G1, "MIG-a"), {G1, "MIG-a"}, {}),
        (a_pod().asks(1, resource=MIG).asks(1), (G1, G2), {G1}, {MIG: 1}),
        (a_pod().asks(1), ("MIG-a",), {"MIG-a"}, {}),
        (a_pod().asks(1, resource=OTHER), ("MIG-a",), set(), {OTHER: 1}),
    ],
    ids=[
        "a GPU for a MIG device",
        "one of each",
        "two GPUs for one of each",
        "a MIG device for a GPU, as where the node's strategy was another",
        "a MIG device of another profile",
    ],
)
def test_l1_an_assignment_counts_for_the_resource_that_is_asked_for(
    builder: PodBuilder, uuids: tuple[str, ...], held: set[str], unknown: dict[str, int]
) -> None:
    """Nobody gets a GPU by asking for a MIG device."""
    ledger = Ledger()
    cut = a100(3, uuid="MIG-a", model="1g.10gb", parent=G0, profile="1g.10gb")
    ledger.apply_node(a_node("n0", a100(0), a100(1), a100(2), cut))

    ledger.apply_pod(builder.on("n0", {"main": uuids}).obj)

    assert _held(ledger.view("n0")) == (held, unknown)


def _held(view: NodeView) -> tuple[set[str], dict[str, int]]:
    return set(view.held), view.unknown
