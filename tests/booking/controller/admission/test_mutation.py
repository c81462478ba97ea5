"""What admission writes on a GPU pod and what it leaves, field by field (laws L2, L7)."""

from typing import Any, Final

import pytest

from booking.controller.admission.mutation import admitted, given_up, stripped
from booking.controller.admission.owner import Ownership
from cluster import names
from cluster.objects.replaced_fields import replaced_in
from tests.fakes.objects import a_booking

SCHEDULER: Final = "gpus"
BOB: Final = Ownership(user="bob")
VOID: Final = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "void"}
OWN: Final = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
LIMITS: Final = {"limits": {names.GPU_RESOURCE: "1"}}


def pod(*, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "p"} if annotations is None else {"name": "p", "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "resources": LIMITS}], **spec}}


def spec_of(raw: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = dict(admitted(raw, BOB, None, SCHEDULER, **more)["spec"])
    return spec


def annotations_of(raw: dict[str, Any], whose: Ownership = BOB) -> dict[str, str]:
    annotations: dict[str, str] = admitted(raw, whose, None, SCHEDULER)["metadata"]["annotations"]
    return annotations


@pytest.mark.parametrize(
    ("is_booked", "class_name"),
    [(True, names.BOOKED_CLASS), (False, names.OPPORTUNISTIC_CLASS)],
    ids=["booked", "opportunistic"],
)
def test_scheduler_and_class_are_those_of_gpu_pods(*, is_booked: bool, class_name: str) -> None:
    booking = a_booking("b") if is_booked else None
    spec = admitted(pod(), BOB, booking, SCHEDULER)["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == (SCHEDULER, class_name)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (names.OPPORTUNISTIC_CLASS, True),
        (names.BOOKED_CLASS, False),
        ("theirs", False),
        (None, False),
    ],
    ids=["the right class", "our other class", "another class", "no class"],
)
def test_a_priority_that_was_computed_for_another_class_is_dropped(given: str | None, *, kept: bool) -> None:
    computed = {"priority": 5, "preemptionPolicy": "Never"}
    spec = spec_of(pod(**computed, **({"priorityClassName": given} if given else {})))
    assert {key: spec[key] for key in computed if key in spec} == (computed if kept else {})


@pytest.mark.parametrize(
    ("given", "scheduler", "class_name"),
    [
        ({}, None, None),
        ({"schedulerName": "", "priorityClassName": ""}, None, None),
        ({"schedulerName": "theirs", "priorityClassName": "high"}, "theirs", "high"),
        ({"schedulerName": "default-scheduler"}, "default-scheduler", None),
        ({"schedulerName": SCHEDULER, "priorityClassName": names.BOOKED_CLASS}, None, None),
        (
            {"schedulerName": names.SCHEDULER_NAME, "priorityClassName": names.OPPORTUNISTIC_CLASS},
            None,
            None,
        ),
    ],
    ids=["none", "empty", "theirs", "the default", "ours", "ours of the other mode"],
)
def test_replaced_values_of_the_user_are_recorded_and_our_own_are_not(
    given: dict[str, str], scheduler: str | None, class_name: str | None
) -> None:
    found = replaced_in(annotations_of(pod(**given)))
    assert (found.scheduler_name, found.priority_class_name) == (scheduler, class_name)
    assert (names.REPLACED in annotations_of(pod(**given))) is bool(scheduler or class_name)


@pytest.mark.parametrize(("class_name", "kept"), [("batch", 50), (names.OPPORTUNISTIC_CLASS, None)])
def test_the_value_of_a_replaced_class_is_recorded_as_the_api_server_has_filled_it_in(
    class_name: str, kept: int | None
) -> None:
    found = replaced_in(annotations_of(pod(priorityClassName=class_name, priority=50)))
    assert found.priority == kept


def test_recorded_values_stay_on_a_pod_of_our_reclaimer() -> None:
    raw = pod(annotations={names.REPLACED: "kept"}, schedulerName="theirs")
    assert annotations_of(raw)[names.REPLACED] == "kept"


@pytest.mark.parametrize("key", [names.USER, names.BOOKING, names.TERMINATE_AT])
def test_law_l7_user_and_cover_annotations_of_a_new_pod_are_rewritten(key: str) -> None:
    nobody = Ownership(why="It is nobody's")
    assert key not in annotations_of(pod(annotations={key: "forged", "mine": "x"}), nobody)
    assert annotations_of(pod(annotations={key: "forged", "mine": "x"}))["mine"] == "x"


@pytest.mark.parametrize(
    ("whose", "user", "why"),
    [
        (BOB, "bob", None),
        (Ownership(why="It is nobody's"), None, "It is nobody's."),
    ],
    ids=["somebody's", "nobody's"],
)
def test_a_pod_has_an_annotation_with_its_owner_or_why_it_has_none(
    whose: Ownership, user: str | None, why: str | None
) -> None:
    found = annotations_of(pod(), whose)
    assert (found.get(names.USER), found.get(names.NO_USER)) == (user, why)
    assert found[names.ADMITTED] == "true"


def test_the_recorded_reason_why_a_reclaimers_pod_has_no_owner_is_kept() -> None:
    raw = pod(annotations={names.NO_USER: "As before."})
    assert annotations_of(raw, Ownership(why="It came back without a user"))[names.NO_USER] == "As before."


@pytest.mark.parametrize("is_queued", [True, False])
def test_a_pod_gets_our_gate_only_when_it_is_queued(*, is_queued: bool) -> None:
    gates = [{"name": "theirs"}]
    found = spec_of(pod(schedulingGates=gates), is_queued=is_queued)["schedulingGates"]
    assert found == gates + ([{"name": names.QUEUE}] if is_queued else [])


OTHER: Final = {"name": "PATH", "value": "/bin"}
FROM: Final = {"envFrom": [{"configMapRef": {"name": "c"}}]}


@pytest.mark.parametrize("group", ["initContainers", "containers"])
@pytest.mark.parametrize(
    ("container", "env"),
    [
        ({"resources": LIMITS}, None),
        ({"resources": LIMITS, "env": [OTHER]}, [OTHER]),
        ({"resources": LIMITS, "env": [OTHER, OWN]}, [OTHER]),
        ({"resources": LIMITS, "env": [OWN, OTHER, OWN]}, [OTHER]),
        ({"resources": LIMITS, **FROM}, None),
        ({}, None),
        ({"env": None}, None),
        ({"env": [OTHER]}, [OTHER]),
        ({"env": [OWN, OTHER]}, [OTHER, VOID]),
        ({"env": [VOID]}, [VOID]),
        (FROM, [VOID]),
        ({**FROM, "env": [OTHER]}, [OTHER, VOID]),
        ({"envFrom": []}, None),
    ],
    ids=[
        "GPU: no variables",
        "GPU: others",
        "GPU: its own choice",
        "GPU: its own choice twice",
        "GPU: from an object",
        "no GPU: no variables",
        "no GPU: variables of null",
        "no GPU: others",
        "no GPU: its own choice",
        "no GPU: void already",
        "no GPU: from an object",
        "no GPU: from an object and others",
        "no GPU: from no object",
    ],
)
def test_law_l2_no_container_chooses_its_own_gpus(
    group: str, container: dict[str, Any], env: list[dict[str, str]] | None
) -> None:
    raw: dict[str, Any] = {"metadata": {}, "spec": {group: [{"name": "c", **container}]}}
    (found,) = spec_of(raw)[group]
    assert found.get("env") == env
    assert {k: v for k, v in found.items() if k != "env"} == {
        k: v for k, v in {"name": "c", **container}.items() if k != "env"
    }


# --- its model -----------------------------------------------------------------------------------------

PREFERRED: Final = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}
WISHED: Final = {names.MODEL: "NVIDIA RTX A6000, NVIDIA-A100"}
TERMS: Final = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": f"{names.MODEL_LABEL}NVIDIA-A100", "operator": "Exists"}]},
        {"matchExpressions": [{"key": f"{names.MODEL_LABEL}NVIDIA-RTX-A6000", "operator": "Exists"}]},
        {"matchExpressions": [{"key": names.MODELS_LABELLED, "operator": "DoesNotExist"}]},
    ]
}


def affinity_of(spec: dict[str, Any]) -> Any:
    return (spec.get("affinity") or {}).get("nodeAffinity")


def test_kube_scheduler_is_told_which_labelled_nodes_cannot_have_the_model() -> None:
    assert affinity_of(spec_of(pod(annotations=WISHED))) == {REQUIRED: TERMS}
    ways = {"podAffinity": {}, "nodeAffinity": PREFERRED}
    assert spec_of(pod(annotations=WISHED, affinity=ways))["affinity"] == {
        "podAffinity": {},
        "nodeAffinity": {**PREFERRED, REQUIRED: TERMS},
    }


def test_a_pod_that_is_created_from_another_one_s_manifest_has_the_terms_for_its_own_model() -> None:
    spec = spec_of(pod(annotations={names.MODEL: "NVIDIA-H200"}, affinity={"nodeAffinity": PREFERRED}))
    copied = {"metadata": {"annotations": WISHED}, "spec": spec}
    assert affinity_of(spec_of(copied)) == {**PREFERRED, REQUIRED: TERMS}
    assert affinity_of(spec_of({"metadata": {}, "spec": spec})) == PREFERRED


@pytest.mark.parametrize(
    ("wish", "spec"),
    [
        (None, {}),
        (" , ", {}),
        ("NVIDIA-A100,1g.10gb", {}),
        ("NVIDIA-A100", {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["theirs"]}}}}),
        ("NVIDIA-A100", {"nodeName": "n"}),
        ("NVIDIA-A100", {"resourceClaims": [{"name": "gpu"}]}),
    ],
    ids=["none", "empty", "a MIG profile", "their own terms", "on a node", "by claims"],
)
def test_what_labels_cannot_express_is_left_to_the_extender(wish: str | None, spec: dict[str, Any]) -> None:
    raw = pod(annotations={names.MODEL: wish} if wish else {}, **spec)
    assert affinity_of(spec_of(raw)) == affinity_of(spec)


def test_a_name_that_is_longer_than_a_label_is_cut_as_in_the_label() -> None:
    (term, _) = affinity_of(spec_of(pod(annotations={names.MODEL: 70 * "A"})))[REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["key"] == names.MODEL_LABEL + 63 * "A"


@pytest.mark.parametrize("own", [{}, {"affinity": {"nodeAffinity": PREFERRED}}], ids=["none", "their own"])
def test_a_pod_that_has_lost_its_gpu_is_not_bound_to_its_model_any_more(own: dict[str, Any]) -> None:
    raw = {"metadata": {"annotations": dict(WISHED)}, "spec": spec_of(pod(annotations=WISHED, **own))}
    assert affinity_of(given_up(raw, "Why.", SCHEDULER)["spec"]) == affinity_of(own)
    assert REQUIRED not in (affinity_of(stripped(raw, "Why.", SCHEDULER)["spec"]) or {})


# --- without its GPU -----------------------------------------------------------------------------------


def test_a_stripped_pod_requests_no_gpu_and_has_the_reason_as_an_annotation() -> None:
    found = stripped(pod(annotations={"mine": "x"}), "Why.", SCHEDULER)
    assert found["metadata"]["annotations"] == {"mine": "x", names.STRIPPED: "Why."}
    (container,) = found["spec"]["containers"]
    assert names.GPU_RESOURCE not in container["resources"].get("limits", {})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("theirs", "theirs"),
        (SCHEDULER, "default-scheduler"),
        (names.SCHEDULER_NAME, "default-scheduler"),
        (None, None),
    ],
    ids=["theirs", "that of GPU pods", "that of the other mode", "none"],
)
def test_a_stripped_pod_keeps_its_scheduler_unless_that_is_for_gpus(
    given: str | None, kept: str | None
) -> None:
    raw = pod(**({"schedulerName": given} if given else {}))
    assert stripped(raw, "Why.", SCHEDULER)["spec"].get("schedulerName") == kept


@pytest.mark.parametrize(
    ("given", "stays"),
    [("theirs", True), (names.BOOKED_CLASS, False), (names.OPPORTUNISTIC_CLASS, False)],
)
def test_a_stripped_pod_keeps_class_and_priority_unless_they_are_for_gpus(given: str, *, stays: bool) -> None:
    computed = {"priorityClassName": given, "priority": 5, "preemptionPolicy": "Never"}
    spec = stripped(pod(**computed), "Why.", SCHEDULER)["spec"]
    assert {key: spec[key] for key in computed if key in spec} == (computed if stays else {})
