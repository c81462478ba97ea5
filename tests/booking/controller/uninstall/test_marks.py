"""What is removed from pods and nodes before the product is removed, and what stays."""

from typing import Any, Final

import msgspec
import pytest

from booking.controller.uninstall.marks import STORY, is_left, off_a_node, off_a_pod
from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod

OTHERS: Final = "example.org/keep"


def a_pod(gates: tuple[str, ...] = (), **metadata: Any) -> Pod:
    """A pod with this metadata, behind these scheduling gates."""
    spec = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
    meta = {"name": "p", "namespace": "team", "uid": "uid-p", "resourceVersion": "7", **metadata}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"annotations": {OTHERS: "yes"}, "labels": {OTHERS: "yes"}, "finalizers": [OTHERS]},
        {"annotations": dict.fromkeys(sorted(STORY), "1")},
        {"annotations": {names.TERMINATE_AT: "2026-11-24T09:00:00Z"}},
    ],
    ids=["bare", "others' marks", "the story of it", "granted by MAIA"],
)
def test_a_pod_without_effective_keys_of_ours_is_left_as_it_is(metadata: dict[str, Any]) -> None:
    assert off_a_pod(a_pod(**metadata)) is None


def test_a_pod_keeps_what_a_new_installation_must_know_of_its_gpus() -> None:
    held = {names.ASSIGNED: '{"main":["GPU-1"]}', names.SHARING_MODE: "mps"}
    assert off_a_pod(a_pod(annotations=held)) is None


@pytest.mark.parametrize("gates", [(), (OTHERS,)], ids=["no gate", "another's gate"])
def test_the_scheduling_gate_of_another_is_left_as_it_is(gates: tuple[str, ...]) -> None:
    assert off_a_pod(a_pod(gates)) is None


@pytest.mark.parametrize(
    "key", [names.HOLD, names.NOTICE, names.EVICT, names.WARNED, names.END_REQUESTED, names.COMEBACK_HOW]
)
def test_an_order_is_removed_from_the_pod_with_this_uid_whatever_has_changed_on_it(key: str) -> None:
    marked = a_pod(annotations={key: "1", OTHERS: "yes", names.USER: "alice"})
    assert off_a_pod(marked) == {"metadata": {"annotations": {key: None}, "uid": "uid-p"}}


@pytest.mark.parametrize("others", [[], [OTHERS]], ids=["alone", "beside another's"])
def test_our_finalizer_is_removed_from_the_version_that_was_read(others: list[str]) -> None:
    marked = a_pod(finalizers=[*others, names.COMEBACK])
    assert off_a_pod(marked) == {
        "metadata": {"finalizers": others, "uid": "uid-p", "resourceVersion": "7"},
    }


@pytest.mark.parametrize("others", [(), (OTHERS,)], ids=["alone", "beside another's"])
def test_our_gate_is_removed_from_the_version_that_was_read(others: tuple[str, ...]) -> None:
    assert off_a_pod(a_pod((names.QUEUE, *others))) == {
        "metadata": {"uid": "uid-p", "resourceVersion": "7"},
        "spec": {"schedulingGates": [{"name": gate} for gate in others]},
    }


def test_a_node_loses_what_its_agent_wrote_and_keeps_the_labels_of_feature_discovery() -> None:
    meta = Meta(
        name="n0",
        uid="uid-n0",
        annotations={
            names.INVENTORY: "{}",
            names.LABELS: "gpu.model,gpu.count,gone",
            names.FEATURE_LABELS: "gpu.count",
            OTHERS: "yes",
        },
        labels={"gpu.model": "A100", "gpu.count": "4", OTHERS: "yes"},
    )
    assert off_a_node(meta) == {
        "metadata": {
            "uid": "uid-n0",
            "annotations": {names.INVENTORY: None, names.LABELS: None},
            "labels": {"gpu.model": None},
        }
    }


@pytest.mark.parametrize(
    ("lease", "keeps_bookings", "is_ours"),
    [
        (names.CONTROLLER_LEASE, True, True),
        (names.SCHEDULER_LEASE, True, True),
        (names.EXTENDER_LEASE, True, True),
        (names.VERDICT_LEASE, True, True),
        (names.node_lease("n0"), True, True),
        (names.MIRROR_LEASE, True, False),
        (names.MIRROR_LEASE, False, True),
        ("somebodys", True, False),
        ("somebodys", False, False),
    ],
)
def test_a_lease_is_deleted_when_it_is_no_longer_needed(
    lease: str, *, keeps_bookings: bool, is_ours: bool
) -> None:
    assert is_left(lease, keeps_bookings=keeps_bookings) == is_ours
