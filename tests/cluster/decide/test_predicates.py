import pytest

from cluster.decide import predicates
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.liveness import State
from cluster.decide.predicates import obstacle
from cluster.decide.wish import wish_of
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_node, a_pod


def a_view(*pods: PodBuilder) -> NodeView:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0), a100(1), a6000(2), a6000(3)))
    for pod in pods:
        ledger.apply_pod(pod.obj)
    return ledger.view("n0")


def holding(name: str, *indices: int) -> PodBuilder:
    devices = tuple(f"GPU-n0-{index}" for index in indices)
    return a_pod(name).asks(len(indices)).on("n0", {"main": devices})


def why(pod: PodBuilder, view: NodeView, agent: State = "alive") -> str | None:
    return obstacle(wish_of(pod.obj), view, agent)


def test_a_pod_fits_where_its_devices_are_free() -> None:
    assert why(a_pod().asks(2).wants(A100), a_view()) is None


def test_a_pod_without_gpus_fits_everywhere() -> None:
    assert why(a_pod(), Ledger().view("n0"), "unseen") is None


def test_any_model_will_do_without_a_wish() -> None:
    assert why(a_pod().asks(4), a_view()) is None


def test_a_list_of_models_is_a_choice() -> None:
    assert why(a_pod().asks(3).wants(A100, A6000), a_view()) is None


def test_a_model_that_the_node_does_not_have() -> None:
    assert why(a_pod().asks(1).wants("NVIDIA H200", "NVIDIA H100"), a_view()) == (
        "no GPU of model NVIDIA-H100 or NVIDIA-H200 on this node"
    )


def test_more_gpus_than_the_node_has() -> None:
    assert why(a_pod().asks(5), a_view()) == predicates.TOO_MANY


def test_more_gpus_of_the_model_than_the_node_has() -> None:
    assert why(a_pod().asks(3).wants(A100), a_view()) == (
        f"the pod asks for more GPUs of model {A100} than this node has"
    )


def test_all_in_use() -> None:
    assert why(a_pod().asks(1).wants(A100), a_view(holding("q", 0, 1))) == (
        f"not enough GPUs of model {A100} on this node are free"
    )


def test_all_in_use_whatever_the_model() -> None:
    assert why(a_pod().asks(4), a_view(holding("q", 0, 1))) == "not enough GPUs on this node are free"


def test_the_other_models_do_not_help() -> None:
    assert why(a_pod().asks(2).wants(A6000), a_view(holding("q", 2))) == (
        f"not enough GPUs of model {A6000} on this node are free"
    )


def test_sick_devices() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, health="unhealthy"), a100(1)))

    assert why(a_pod().asks(2), ledger.view("n0")) == "not enough GPUs on this node are healthy"


def test_the_last_devices_are_kept_for_pods_that_hold_unknown_ones() -> None:
    stranger = a_pod("stranger").asks(1).on("n0")

    assert why(a_pod().asks(3), a_view(stranger)) is None
    assert why(a_pod().asks(4), a_view(stranger)) == predicates.UNACCOUNTED
    assert why(a_pod().asks(2).wants(A100), a_view(stranger)) == predicates.UNACCOUNTED


def test_a_node_that_has_published_nothing() -> None:
    assert why(a_pod().asks(1), Ledger().view("n9")) == predicates.NOT_PUBLISHED


@pytest.mark.parametrize("agent", ["silent", "stopping", "unseen"])
def test_l6_a_node_whose_agent_is_not_alive_gets_no_pod(agent: State) -> None:
    assert why(a_pod().asks(1), a_view(), agent) == predicates.AGENT[agent]


def test_an_annotation_that_cannot_be_read() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0), drift="?"))

    assert why(a_pod().asks(1), ledger.view("n0")) == ledger.view("n0").fault


def test_a_mig_profile_is_a_resource_of_its_own() -> None:
    ledger = Ledger()
    mig = a100(1, uuid="MIG-a", model="NVIDIA-A100-MIG-1g.5gb", parent="GPU-n0-0", profile="1g.5gb")
    ledger.apply_node(a_node("n0", a100(0), mig))

    assert why(a_pod().asks(1, resource="nvidia.com/mig-1g.5gb"), ledger.view("n0")) is None
    assert why(a_pod().asks(1), ledger.view("n0")) == predicates.TOO_MANY


def test_the_reason_is_the_same_text_however_much_is_free() -> None:
    pod = a_pod().asks(2).wants(A100)

    assert why(pod, a_view(holding("q", 0, 1))) == why(pod, a_view(holding("q", 0)))
