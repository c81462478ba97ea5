"""What is written on a pod, and what of it counts."""

import pytest

from cluster import names
from cluster.decide.ledger import WHOLE, Ledger
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
