"""Why a pod waits, for the whole cluster."""

from dataclasses import replace

import msgspec
import pytest

from cluster import names
from cluster.decide.explain import hold_message, why_waiting
from cluster.decide.explain.waiting import LASTING
from cluster.decide.ledger import Ledger
from cluster.decide.request import gpu_request_of
from cluster.objects.claims import PodClaims
from cluster.objects.hold import Hold
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_node, a_pod


def a_ledger() -> Ledger:
    ledger = Ledger()
    for node in ("n0", "n1"):
        ledger.apply_node(a_node(node, a100(0, node), a100(1, node), a6000(2, node)))
    return ledger


def why(pod: PodBuilder, ledger: Ledger) -> str | None:
    return why_waiting(gpu_request_of(pod.obj), ledger.views(ledger.nodes()))


def holding(node: str, *indices: int) -> PodBuilder:
    devices = tuple(f"GPU-{node}-{index}" for index in indices)
    return a_pod(f"q-{node}").asks(len(devices)).on(node, {"main": devices})


def test_nothing_is_reported_about_a_pod_that_fits() -> None:
    assert why(a_pod().asks(2), a_ledger()) is None
    assert why(a_pod().asks(3).wants(A100, A6000), a_ledger()) is None


def test_gpus_of_one_model_are_too_few_for_a_pod_that_does_not_list_several_models() -> None:
    assert why(a_pod().asks(3), a_ledger()) == (
        "The pod asks for 3 GPUs, but no node has more than 2 of one model,"
        f" and it does not list several models in {names.MODEL}."
    )


def test_nothing_is_reported_about_a_pod_without_gpus() -> None:
    assert why(a_pod(), Ledger()) is None


def test_a_cluster_without_gpus_is_reported() -> None:
    assert why(a_pod().asks(1), Ledger()) == "No node has GPUs."


def test_the_maximum_is_reported_for_more_gpus_than_any_node_has() -> None:
    assert why(a_pod().asks(9), a_ledger()) == "The pod asks for 9 GPUs, but no node has more than 3."


def test_the_maximum_is_reported_for_more_gpus_of_a_model_than_any_node_has() -> None:
    assert why(a_pod().asks(3).wants(A100), a_ledger()) == (
        f"The pod asks for 3 GPUs of model {A100}, but no node has more than 2."
    )


def test_the_existing_models_are_reported_where_an_unknown_one_is_requested() -> None:
    assert why(a_pod().asks(1).wants("NVIDIA B300"), a_ledger()) == (
        f"No node has a GPU of model NVIDIA-B300. Models in this cluster: {A100}, {A6000}."
    )


def test_gpus_that_are_all_in_use_are_reported() -> None:
    ledger = a_ledger()
    for node in ("n0", "n1"):
        ledger.apply_pod(holding(node, 0, 1).obj)

    assert why(a_pod().asks(1).wants(A100), ledger) == f"All 4 healthy GPUs of model {A100} are in use."


def test_free_gpus_scattered_over_nodes_are_not_enough_for_one_pod() -> None:
    ledger = a_ledger()
    for node in ("n0", "n1"):
        ledger.apply_pod(holding(node, 0).obj)

    assert why(a_pod().asks(2).wants(A100), ledger) == f"No node has 2 free GPUs of model {A100}."


def test_unhealthy_gpus_are_called_unhealthy() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, health="unhealthy")))

    assert why(a_pod().asks(1), ledger) == "None of the GPUs in this cluster is healthy."


def test_a_mig_profile_is_called_by_its_resource() -> None:
    assert why(a_pod().asks(1, resource="nvidia.com/mig-1g.5gb"), a_ledger()) == (
        "No node has devices nvidia.com/mig-1g.5gb."
    )


def test_only_the_hold_is_reported_of_a_pod_for_which_gpus_are_kept() -> None:
    ledger = a_ledger()
    ledger.apply_pod(holding("n0", 0, 1).obj)
    booked = a_pod("booked").asks(1).kept("n0", "GPU-n0-0")
    ledger.apply_pod(booked.obj)
    assert why(booked, ledger) is None

    hold = Hold(node="n0", devices=("GPU-n0-0",))
    assert hold_message(hold) == "1 GPU of node n0 is kept for this pod."
    several = Hold(node="n0", devices=("GPU-n0-0", "GPU-n0-1"), victims=("uid-a",))
    assert hold_message(several) == (
        "2 GPUs of node n0 are kept for this pod while 1 pod without a booking leaves."
    )
    two = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-a", "uid-b"))
    assert hold_message(two).endswith("while 2 pods without a booking leave.")


def test_every_message_has_the_code_of_its_remedy_in_the_table() -> None:
    ledger = a_ledger()
    codes = [
        getattr(why_waiting(gpu_request_of(pod.obj), ledger.views(ledger.nodes())), "code", None)
        for pod in (
            a_pod().asks(9),
            a_pod().asks(3).wants(A100),
            a_pod().asks(1).wants("B300"),
            a_pod().asks(1),
        )
    ]
    assert codes == ["too-many", "too-many-matching", "no-such-gpu", None]


def test_free_gpus_that_are_kept_for_others_are_reported() -> None:
    ledger = a_ledger()
    ledger.apply_pod(holding("n0", 0, 1).obj)
    ledger.apply_pod(holding("n1", 1).obj)
    ledger.apply_pod(a_pod("booked").asks(1).kept("n1", "GPU-n1-0").obj)

    assert why(a_pod().asks(1).wants(A100), ledger) == (
        f"All 4 healthy GPUs of model {A100} are in use or kept for booked pods."
    )


def code(pod: PodBuilder, ledger: Ledger) -> str | None:
    found = why_waiting(gpu_request_of(pod.obj), ledger.views(ledger.nodes()))
    return found.code if found else None


def crowded(*free: str) -> Ledger:
    """Every A100 of both nodes is in use, but these."""
    ledger = a_ledger()
    for node in ("n0", "n1"):
        for index in (0, 1):
            if (uuid := f"GPU-{node}-{index}") not in free:
                ledger.apply_pod(a_pod(f"q-{uuid}").asks(1).on(node, {"main": (uuid,)}).obj)
    return ledger


@pytest.mark.parametrize(
    ("pod", "ledger", "expected"),
    [
        (a_pod().asks(1), Ledger(), "not-published"),
        (a_pod().asks(4), a_ledger(), "too-many"),
        (a_pod().asks(1).wants("NVIDIA-B300"), a_ledger(), "no-such-gpu"),
        (a_pod().asks(3).wants(A100), a_ledger(), "too-many-matching"),
        (a_pod().asks(3), a_ledger(), "too-few-of-one-model"),
        (a_pod().asks(1).wants(A100), crowded(), "in-use"),
        (a_pod().asks(2).wants(A100), crowded("GPU-n0-0", "GPU-n1-1"), "in-use"),
        (a_pod().asks(1).wants(A100), crowded("GPU-n0-0"), None),
        (a_pod().asks(2).wants(A100), crowded("GPU-n0-0", "GPU-n0-1"), None),
    ],
)
def test_the_most_lasting_reason_is_reported(pod: PodBuilder, ledger: Ledger, expected: str | None) -> None:
    assert code(pod, ledger) == expected


def test_reasons_that_no_eviction_changes_are_lasting_and_others_are_not() -> None:
    assert {
        "not-published",
        "not-given",
        "too-many",
        "no-such-gpu",
        "too-many-matching",
        "too-few-of-one-model",
        "share-beside-whole",
        "share-too-large",
    } == LASTING


def test_a_node_whose_agent_has_written_nothing_has_no_gpus() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0"))
    assert why(a_pod().asks(1), ledger) == "No node has GPUs."


def test_a_node_without_an_inventory_is_ignored_even_if_devices_are_known() -> None:
    view = a_ledger().view("n0")
    assert why_waiting(gpu_request_of(a_pod().asks(1).obj), [replace(view, published=False)]) == (
        "No node has GPUs."
    )


def test_nodes_without_gpus_beside_one_that_has_some_change_nothing() -> None:
    ledger = a_ledger()
    ledger.apply_node(a_node("n9"))
    assert why(a_pod().asks(1), ledger) is None
    assert why(a_pod().asks(4), ledger) == "The pod asks for 4 GPUs, but no node has more than 3."


def test_the_largest_node_counts() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0)))
    ledger.apply_node(a_node("n1", a100(0, "n1"), a100(1, "n1"), a100(2, "n1")))
    assert why(a_pod().asks(3), ledger) is None
    assert why(a_pod().asks(4).wants(A100), ledger) == "The pod asks for 4 GPUs, but no node has more than 3."


def test_a_requirement_beyond_the_model_is_named() -> None:
    pod = a_pod().asks(1).with_annotation(names.MIN_MEMORY, "99999")
    assert why(pod, a_ledger()) == (
        f"No node has a GPU with at least 99999 MiB. Models in this cluster: {A100}, {A6000}."
    )


def test_devices_that_are_not_healthy_are_not_counted_among_those_in_use() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, health="unhealthy"), a100(1)))
    ledger.apply_pod(holding("n0", 1).obj)
    assert why(a_pod().asks(1), ledger) == "All 1 healthy GPUs are in use."


def test_the_first_resource_in_short_supply_is_reported_of_a_pod_that_asks_for_two() -> None:
    pod = a_pod().asks(1).asks(1, container="part", resource="nvidia.com/mig-1g.5gb")
    assert why(pod, a_ledger()) == "No node has devices nvidia.com/mig-1g.5gb."


def test_too_many_mig_devices_are_called_by_their_resource() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, uuid="MIG-a", parent="GPU-n0-9", profile="1g.5gb")))
    resource = "nvidia.com/mig-1g.5gb"
    assert why(a_pod().asks(1, resource=resource), ledger) is None
    assert why(a_pod().asks(2, resource=resource), ledger) == (
        f"The pod asks for 2 devices {resource}, but no node has more than 1."
    )


def test_gpus_that_are_kept_on_one_node_and_free_on_another_are_free() -> None:
    ledger = crowded("GPU-n0-0", "GPU-n1-0")
    ledger.apply_pod(a_pod("booked").asks(1).kept("n0", "GPU-n0-0").obj)
    assert why(a_pod().asks(1).wants(A100), ledger) is None
    assert why(a_pod().asks(2).wants(A100), ledger) == f"No node has 2 free GPUs of model {A100}."


@pytest.mark.parametrize(
    ("devices", "victims", "text"),
    [
        (1, 0, "1 GPU of node n0 is kept for this pod."),
        (2, 0, "2 GPUs of node n0 are kept for this pod."),
        (1, 1, "1 GPU of node n0 is kept for this pod while 1 pod without a booking leaves."),
        (2, 3, "2 GPUs of node n0 are kept for this pod while 3 pods without a booking leave."),
    ],
)
def test_the_message_of_a_hold_counts_its_devices_and_victims(devices: int, victims: int, text: str) -> None:
    hold = Hold(
        node="n0",
        devices=tuple(f"GPU-n0-{index}" for index in range(devices)),
        victims=tuple(f"uid-{index}" for index in range(victims)),
    )
    assert hold_message(hold) == text


def test_the_models_of_the_cluster_are_named_in_their_order() -> None:
    ledger = Ledger()
    models = [f"NVIDIA-{letter}" for letter in "ABCDEF"]
    ledger.apply_node(a_node("n0", *(a100(i, model=model) for i, model in enumerate(reversed(models)))))
    assert why(a_pod().asks(1).wants("X"), ledger) == (
        f"No node has a GPU of model X. Models in this cluster: {', '.join(models)}."
    )


def test_a_claim_of_which_it_is_not_known_what_would_do_says_why() -> None:
    claims = PodClaims(count=1, accepted=frozenset(), problem="its claim has alternatives")
    device = msgspec.structs.replace(a100(0), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0")
    ledger = Ledger()
    ledger.apply_node(a_node("n0", device))
    pod = msgspec.structs.replace(a_pod().obj, claims=claims)
    why = why_waiting(gpu_request_of(pod), ledger.views(["n0"]))
    assert why is not None
    assert "its claim has alternatives" in why


@pytest.mark.parametrize("allocatable", [True, False], ids=["by claims", "not by claims"])
def test_that_no_driver_gives_what_is_configured_is_said_before_what_is_in_use(*, allocatable: bool) -> None:
    claims = PodClaims(count=1, refused=(("It gives no sharing by MPS", ""),))
    device = msgspec.structs.replace(a100(0), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0")
    ledger = Ledger()
    ledger.apply_node(a_node("n0", device if allocatable else a100(0)))
    ledger.apply_node(a_node("n1", a100(0, "n1")))
    pod = msgspec.structs.replace(a_pod().obj, claims=claims)
    found = why_waiting(gpu_request_of(pod), ledger.views(["n0", "n1"]))
    assert found is not None
    assert ("no sharing by MPS" in found) is allocatable
