"""The node for which a pod is nominated, and what the pod needs there."""

import pytest

from cluster import names
from cluster.decide.ledger.nominated import nominated
from tests.fakes.objects import A100, A6000, PodBuilder, a_pod

NOMINATED = a_pod().asks(2).nominated_to("n0")


def test_a_waiting_pod_is_nominated_for_its_nominated_node() -> None:
    found = nominated(NOMINATED.of_priority(7).obj)

    assert found is not None
    assert (found.uid, found.node, found.priority) == ("uid-p", "n0", 7)
    assert found.demand == {names.GPU_RESOURCE: 2}


def test_a_pod_without_priority_has_priority_0() -> None:
    found = nominated(NOMINATED.obj)

    assert found is not None
    assert found.priority == 0


@pytest.mark.parametrize(
    "builder",
    [
        a_pod().asks(1),
        NOMINATED.on("n0"),
        NOMINATED.on("n1"),
        NOMINATED.ended("Succeeded"),
        NOMINATED.ended("Failed"),
        NOMINATED.terminating(),
        a_pod().nominated_to("n0"),
        a_pod().needing(cpu="1").nominated_to("n0"),
    ],
    ids=[
        "not nominated",
        "bound there",
        "bound elsewhere",
        "succeeded",
        "failed",
        "terminating",
        "asks for nothing",
        "asks for no GPU",
    ],
)
def test_a_pod_without_a_valid_nomination_is_meant_for_no_node(builder: PodBuilder) -> None:
    assert nominated(builder.obj) is None


def test_a_pod_with_an_unreadable_amount_is_meant_for_no_node() -> None:
    assert nominated(a_pod().needing(**{names.GPU_RESOURCE: "lots"}).nominated_to("n0").obj) is None


def test_a_pod_keeps_the_models_that_it_requests_without_a_booking() -> None:
    found = nominated(NOMINATED.wants(A6000).obj)

    assert found is not None
    assert found.selector.models == {A6000}
    assert found.served(None) is found


def test_the_model_of_the_booking_replaces_the_models_requested_and_nothing_else() -> None:
    found = nominated(NOMINATED.wants(A6000).with_annotation(names.NOT_UUID, "GPU-a").obj)

    assert found is not None
    served = found.served(A100)
    assert served.selector.models == {A100}
    assert served.selector.not_uuids == {"GPU-a"}
    assert (served.uid, served.node, served.demand) == (found.uid, found.node, found.demand)
