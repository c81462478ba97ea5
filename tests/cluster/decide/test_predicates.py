import dataclasses
from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide import predicates, reasons
from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.amounts import Holding
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.ledger.view import view_of
from cluster.decide.predicates import rejection
from cluster.decide.reasons import NOT_GIVEN
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.objects import inventory
from cluster.objects.claims import ClaimedDevice, PodClaims
from cluster.objects.inventory import Device, numbered_uuid
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_node, a_pod, shared_gpu


def a_view(*pods: PodBuilder) -> NodeView:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0), a100(1), a6000(2), a6000(3)))
    for pod in pods:
        ledger.apply_pod(pod.obj)
    return ledger.view("n0")


def holding(name: str, *indices: int) -> PodBuilder:
    devices = tuple(f"GPU-n0-{index}" for index in indices)
    return a_pod(name).asks(len(indices)).on("n0", {"main": devices})


def why(pod: PodBuilder, view: NodeView, agent: AgentState = "alive") -> str | None:
    return rejection(gpu_request_of(pod.obj), view, agent)


def test_a_pod_fits_where_its_devices_are_free() -> None:
    assert why(a_pod().asks(2).wants(A100), a_view()) is None


def test_a_pod_without_gpus_fits_everywhere() -> None:
    assert why(a_pod(), Ledger().view("n0"), "unseen") is None


def test_a_request_without_a_model_takes_any_model() -> None:
    assert why(a_pod().asks(2), a_view()) is None


def test_a_pod_that_does_not_list_several_models_gets_gpus_of_one() -> None:
    assert why(a_pod().asks(3), a_view()) == reasons.MIXED_MODELS.reason("")
    assert why(a_pod().asks(3).wants(A100, A6000), a_view()) is None
    assert why(a_pod().asks(3).with_annotation(names.NOT_MODEL, "NVIDIA-H100"), a_view()) is not None


def test_a_pod_that_lists_models_may_get_any_of_them() -> None:
    assert why(a_pod().asks(3).wants(A100, A6000), a_view()) is None


def test_a_model_that_the_node_lacks_is_reported() -> None:
    assert why(a_pod().asks(1).wants("NVIDIA H200", "NVIDIA H100"), a_view()) == (
        "no GPU of model NVIDIA-H100 or NVIDIA-H200 on this node"
    )


def test_a_request_for_more_gpus_than_the_node_has_is_rejected() -> None:
    assert why(a_pod().asks(5), a_view()) == predicates.TOO_MANY


def test_a_request_for_more_gpus_of_the_model_than_the_node_has_is_rejected() -> None:
    assert why(a_pod().asks(3).wants(A100), a_view()) == (
        f"the pod asks for more GPUs of model {A100} than this node has"
    )


def test_a_node_whose_gpus_of_the_model_are_all_in_use_is_rejected() -> None:
    assert why(a_pod().asks(1).wants(A100), a_view(holding("q", 0, 1))) == (
        f"not enough GPUs of model {A100} on this node are free"
    )


def test_a_node_whose_gpus_are_all_in_use_is_rejected_whatever_the_model() -> None:
    assert why(a_pod().asks(2), a_view(holding("q", 0, 2))) == "not enough GPUs on this node are free"


def test_free_gpus_of_other_models_do_not_help() -> None:
    assert why(a_pod().asks(2).wants(A6000), a_view(holding("q", 2))) == (
        f"not enough GPUs of model {A6000} on this node are free"
    )


def test_unhealthy_devices_are_reported() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, health="unhealthy"), a100(1)))

    assert why(a_pod().asks(2), ledger.view("n0")) == "not enough GPUs on this node are healthy"


def test_the_last_devices_are_kept_for_pods_that_hold_unknown_ones() -> None:
    stranger = a_pod("stranger").asks(1).on("n0")

    assert why(a_pod().asks(3).wants(A100, A6000), a_view(stranger)) is None
    assert why(a_pod().asks(4).wants(A100, A6000), a_view(stranger)) == predicates.UNACCOUNTED
    assert why(a_pod().asks(2).wants(A100), a_view(stranger)) == predicates.UNACCOUNTED


# --- holds -------------------------------------------------------------------------------------------

BOOKED = a_pod("booked").asks(2).kept("n0", "GPU-n0-0", "GPU-n0-1")


def test_only_the_pod_with_the_hold_fits_on_the_held_devices() -> None:
    view = a_view(BOOKED)

    assert why(BOOKED, view) is None
    assert why(a_pod().asks(1).wants(A100), view) == predicates.ON_HOLD
    assert why(a_pod().asks(3).wants(A100, A6000), view) == predicates.ON_HOLD
    assert why(a_pod().asks(2), view) is None


def test_the_pod_with_the_hold_waits_until_all_of_its_devices_are_free() -> None:
    view = a_view(BOOKED, holding("victim", 1))

    assert why(BOOKED, view) == predicates.HELD_NOT_FREE
    assert why(a_pod().asks(1).wants(A100), view) == predicates.ON_HOLD


def test_devices_of_others_are_in_use_whether_they_are_kept_or_not() -> None:
    view = a_view(BOOKED, holding("victim", 0, 1))

    assert why(a_pod().asks(1).wants(A100), view) == f"not enough GPUs of model {A100} on this node are free"


def test_the_pod_with_the_hold_fits_on_no_other_node() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n1", a100(0, "n1"), a100(1, "n1")))

    assert why(BOOKED, ledger.view("n1")) == "GPUs of node n0 are kept for this pod"


def test_a_hold_that_is_not_in_the_view_yet_counts_for_its_pod() -> None:
    assert why(BOOKED, a_view()) is None
    assert why(BOOKED, a_view(holding("q", 0))) == predicates.HELD_NOT_FREE


def test_a_device_with_two_holds_is_kept_for_the_older_one() -> None:
    rival = a_pod("rival").asks(1).kept("n0", "GPU-n0-1", at=EPOCH - timedelta(seconds=1))
    view = a_view(BOOKED, rival)

    assert why(rival, view) is None
    assert why(BOOKED, view) == predicates.ON_HOLD


def test_a_kept_device_that_becomes_unhealthy_is_not_given() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0, health="unhealthy"), a100(1), a100(2), a100(3)))
    ledger.apply_pod(BOOKED.obj)

    assert why(BOOKED, ledger.view("n0")) == predicates.HELD_UNHEALTHY


@pytest.mark.parametrize("devices", [("GPU-n0-0",), ("GPU-n0-0", "GPU-n0-2"), ("GPU-n0-0", "GPU-elsewhere")])
def test_a_hold_that_does_not_match_the_request_gives_the_pod_nothing(devices: tuple[str, ...]) -> None:
    pod = a_pod("booked").asks(2).wants(A100).kept("n0", *devices)

    assert why(pod, a_view(pod)) == predicates.HELD_MISMATCH


def test_a_kept_device_that_an_unaccounted_pod_may_hold_is_not_given() -> None:
    assert why(BOOKED, a_view(BOOKED, a_pod("stranger").asks(1).on("n0"))) == predicates.UNACCOUNTED


def test_an_unreadable_hold_is_ignored() -> None:
    unreadable = a_pod("booked").asks(1).with_annotation(names.HOLD, "?")

    assert why(unreadable, a_view(unreadable)) is None


def test_a_node_that_has_published_nothing_is_rejected() -> None:
    assert why(a_pod().asks(1), Ledger().view("n9")) == predicates.NOT_PUBLISHED


@pytest.mark.parametrize("agent", ["unresponsive", "stopping", "unseen"])
def test_l6_a_node_whose_agent_is_not_alive_gets_no_pod(agent: AgentState) -> None:
    assert why(a_pod().asks(1), a_view(), agent) == predicates.AGENT[agent]


def test_a_node_with_an_unreadable_annotation_is_rejected() -> None:
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


def test_a_mig_profile_is_a_model() -> None:
    ledger = Ledger()
    mig = a100(1, uuid="MIG-a", model="NVIDIA-A100-MIG-1g.5gb", parent="GPU-n0-0", profile="1g.5gb")
    ledger.apply_node(a_node("n0", a100(0), mig))
    pod = a_pod().asks(1, resource="nvidia.com/mig-1g.5gb")

    assert why(pod.wants("1g.5gb"), ledger.view("n0")) is None
    assert why(pod.wants("NVIDIA A100-MIG-1g.5gb"), ledger.view("n0")) is None
    assert why(pod.wants("2g.10gb"), ledger.view("n0")) == "no GPU of model 2g.10gb on this node"
    assert why(pod.with_annotation(names.NOT_UUID, "GPU-n0-0"), ledger.view("n0")) == (
        "no GPU not among GPU-n0-0 on this node"
    )


def test_requests_for_memory_and_against_a_model_count_too() -> None:
    large = a_pod().asks(1).with_annotation(names.MIN_MEMORY, "60Gi")

    assert why(large, a_view(holding("q", 0))) is None
    assert why(large, a_view(holding("q", 0, 1))) == (
        "not enough GPUs with at least 61440 MiB on this node are free"
    )
    assert why(a_pod().asks(3).with_annotation(names.NOT_MODEL, A100), a_view()) == (
        f"the pod asks for more GPUs other than model {A100} than this node has"
    )


def test_a_cordoned_node_gets_no_new_pod_except_one_that_tolerates_the_cordon() -> None:
    ledger = Ledger()
    ledger.apply_node(
        msgspec.convert({**msgspec.to_builtins(a_node("n0", a100(0))), "spec": {"unschedulable": True}}, Node)
    )
    plain = a_pod().asks(1)
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    bears = msgspec.convert({**plain.raw, "spec": {**plain.raw["spec"], "tolerations": [toleration]}}, Pod)

    assert why(plain, ledger.view("n0")) == predicates.CORDONED
    assert rejection(gpu_request_of(bears), ledger.view("n0"), "alive") is None
    ledger.apply_node(a_node("n0", a100(0), version=2))
    assert why(plain, ledger.view("n0")) is None


def a_view_of(*devices: Device) -> NodeView:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", *devices))
    return ledger.view("n0")


def a_number(number: int, model: str = A100) -> Device:
    return Device(uuid=numbered_uuid("n0", number), index=number, model=model, memory=81920, numbered=True)


def test_where_the_kubelet_chooses_a_pod_cannot_name_a_gpu_or_leave_one_out() -> None:
    view = a_view_of(a_number(0), a_number(1))
    assert why(a_pod().asks(1).wants(A100), view) is None
    for key in (names.UUID, names.NOT_UUID):
        found = rejection(gpu_request_of(a_pod().asks(1).with_annotation(key, "n0-0").obj), view, "alive")
        assert found is not None
        assert found.code == "kubelet-chooses"


def test_where_the_kubelet_chooses_among_models_a_pod_cannot_ask_for_one() -> None:
    view = a_view_of(a_number(0, names.MIXED_MODEL), a_number(1, names.MIXED_MODEL))
    assert why(a_pod().asks(1), view) is None
    for key in (names.MODEL, names.NOT_MODEL):
        found = rejection(gpu_request_of(a_pod().asks(1).with_annotation(key, A100).obj), view, "alive")
        assert found is not None
        assert found.code == "mixed-models"


@pytest.mark.parametrize(
    ("kept_for", "key", "fits"),
    [
        ("uid-q", "", True),
        ("uid-other", "", False),
        ("uid-other", "ns.c", False),
        ("uid-other", "uid-q", True),
    ],
    ids=["for it", "unmarked", "a claim of several", "a claim of its own"],
)
def test_a_pod_does_not_join_a_claim_whose_device_is_kept_for_another(
    kept_for: str, key: str, *, fits: bool
) -> None:
    """Those that have the claim are leaving, and the device would stay with it.

    What kube-scheduler has given to this pod alone would stay with it, too: it is bound, and can leave.
    """
    ledger = Ledger()
    ledger.apply_node(a_node("n0", msgspec.structs.replace(a100(0), claimed_as="gpu-0")))
    held = (ClaimedDevice(claim="c", node="n0", device="gpu-0"),)
    pod = msgspec.structs.replace(
        a_pod("q").obj, claims=PodClaims(count=1, held=held, uids=("c",), keys=(key,))
    )
    view = dataclasses.replace(ledger.view("n0"), on_hold={"GPU-n0-0": kept_for})
    assert (rejection(gpu_request_of(pod), view, "alive") is None) is fits


@pytest.mark.parametrize(
    ("others", "is_known", "is_refused"),
    [((), True, False), (("q",), True, True), (("q",), False, False), (("p",), True, False)],
    ids=["no other pod", "another pod has it", "kube-scheduler may give it again", "itself"],
)
def test_a_pod_whose_device_another_one_has_fits_only_until_nobody_else_would_get_it(
    others: tuple[str, ...], *, is_known: bool, is_refused: bool
) -> None:
    """A claim without a bound pod is no reason: of two pods that wait, one must get it."""
    device = msgspec.structs.replace(a100(0), claimed_as="gpu-0")
    parts = {claim: {device.uuid: Holding(device.uuid, claim=claim)} for claim in "abc"}
    unbound = [PodHoldings(claim, "n0", parts[claim], users=()) for claim in "ab"]
    bound = [PodHoldings(uid, "n0", parts["c"]) for uid in others]
    view = view_of("n0", devices=(device,), fault=None, holdings=(*unbound, *bound), on_hold={})
    request = GpuRequest(
        needs=(),
        demand={names.CLAIM_RESOURCE: 1},
        uid="p",
        allocated_on="n0",
        allocated=frozenset({"gpu-0"}),
        claims=frozenset("a"),
        spoiled=frozenset({"gpu-0"} if is_known else ()),
    )
    assert predicates.rejection(request, view, "alive") == (predicates.GIVEN_TWICE if is_refused else None)


@pytest.mark.parametrize(
    ("refused", "allocated", "is_refused"),
    [
        ([("whole", "")], (), False),
        ([("whole", "mig")], (), True),
        ([("whole", "")], ("gpu-0",), True),
        ([("whole", "")], ("gpu-1",), False),
        ([("whole", ""), ("", "mig")], (), False),
        ([], (), False),
    ],
    ids=[
        "a part would do",
        "nothing would",
        "it has a whole one",
        "it has a part",
        "one of each",
        "nothing is asked",
    ],
)
def test_a_node_is_refused_where_its_driver_would_give_no_device_as_it_is_configured(
    refused: list[tuple[str, str]], allocated: tuple[str, ...], *, is_refused: bool
) -> None:
    """The node has a whole GPU and a part of another."""
    devices = tuple(
        msgspec.structs.replace(a100(n, uuid=uuid), claimed_as=f"gpu-{n}", resource=names.CLAIM_RESOURCE)
        for n, uuid in enumerate(("GPU-a", "MIG-b"))
    )
    view = view_of("n0", devices=devices, fault=None, holdings=(), on_hold={})
    request = GpuRequest(
        needs=(),
        demand={names.CLAIM_RESOURCE: 1},
        allocated_on="n0" if allocated else None,
        allocated=frozenset(allocated),
        refused=tuple(refused),
    )
    found = predicates.rejection(request, view, "alive")
    assert (found is not None and found.code == NOT_GIVEN.code) == is_refused


WITHHELD = {"health": "unhealthy", "reason": inventory.OWNER_WAITS}


def withheld(*devices: Device, **more: object) -> NodeView:
    """A node that waits to change who gives out these devices."""
    ledger = Ledger()
    found = (msgspec.structs.replace(device, **WITHHELD, **more) for device in devices)
    ledger.apply_node(a_node("n0", *found))
    return ledger.view("n0")


def test_a_node_that_waits_for_another_owner_says_so_to_pods_that_would_fit_there() -> None:
    view = withheld(a100(0), a100(1))
    assert why(a_pod().asks(2), view) == predicates.OWNER_WAITS
    assert why(a_pod().asks(3), view) == predicates.TOO_MANY
    assert why(a_pod().asks(1).wants(A6000), view) == f"no GPU of model {A6000} on this node"
    assert why(a_pod().asks(1).wants(A6000), withheld(a100(0), a6000(1))) == predicates.OWNER_WAITS


def test_what_claims_give_until_then_is_for_pods_without_claims_afterwards() -> None:
    model = names.claimed_model(A100)
    view = withheld(a100(0), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0", model=model)
    assert why(a_pod().asks(1).wants(A100), view) == predicates.OWNER_WAITS
    by_claim = msgspec.structs.replace(
        a_pod().obj, claims=PodClaims(count=1, accepted=frozenset({"GPU-n0-0"}))
    )
    assert rejection(gpu_request_of(by_claim), view, "alive") == predicates.OWNER_WAITS
    assert why(a_pod().asks(2), view) == predicates.TOO_MANY


def test_a_share_waits_for_another_owner_if_the_node_has_such_a_gpu() -> None:
    view = withheld(shared_gpu(0, slots=3))
    assert why(a_pod().shares(memory=1024), view) == predicates.OWNER_WAITS
    assert why(a_pod().shares(memory=10**6), view) != predicates.OWNER_WAITS
