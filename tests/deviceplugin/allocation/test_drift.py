"""Pods that have other devices than they were assigned."""

from cluster.objects.slots import slot_id
from deviceplugin.allocation.drift import drift
from deviceplugin.allocation.pod_devices import PodDevices
from tests.deviceplugin.pods import SHARED, container, held, pod, share


def test_a_pod_with_another_device_is_reported_with_its_actual_devices() -> None:
    assert drift([pod("a", assignment=["A"])], held(a="B")) == {"a": {"main": ("B",)}}


def test_a_pod_without_an_assignment_is_reported_with_its_actual_devices() -> None:
    assert drift([pod("a")], held(a="B")) == {"a": {"main": ("B",)}}


def test_containers_not_served_yet_are_expected_to_get_their_assigned_devices() -> None:
    shape = pod(
        "a", assignment={"main": ["A"], "side": ["C"]}, app=(container("main", 1), container("side", 1))
    )
    assert drift([shape], PodDevices()) == {}
    assert drift([shape], held(a="A")) == {}
    assert drift([shape], held(a="B")) == {"a": {"main": ("B",), "side": ("C",)}}


def test_a_container_of_two_resources_has_both_and_is_expected_to_get_what_is_missing() -> None:
    shape = pod("a", assignment=["A", "MIG-1"], app=(container("main", 1, slices=1),))
    both = PodDevices({("a", "main"): frozenset({"A"})}, {"mig": {("a", "main"): frozenset({"MIG-1"})}})
    assert drift([shape], both) == {}
    assert drift([shape], held(a="A")) == {}
    assert drift([shape], held(a="B MIG-1")) == {"a": {"main": ("B", "MIG-1")}}


def test_l1_a_pod_that_asks_for_no_gpu_does_not_drift_whatever_is_written_on_it() -> None:
    forged = pod("a", 0, assignment=["A", "B"])
    assert drift([forged], PodDevices()) == {}
    assert drift([forged, pod("b", assignment=["A"])], held(b="A")) == {}


def test_no_more_devices_are_expected_than_a_container_asks_for() -> None:
    assert drift([pod("a", assignment=["A", "B", "C"])], held(a="C")) == {"a": {"main": ("C",)}}


def test_a_slot_counts_as_its_gpu() -> None:
    shape = pod("a", assignment=["A"], app=(share("main"),))
    shared = {("a", "main"): frozenset({slot_id("A", 3)})}
    assert drift([shape], PodDevices({}, {SHARED: shared})) == {}
    shared = {("a", "main"): frozenset({slot_id("B", 0)})}
    assert drift([shape], PodDevices({}, {SHARED: shared})) == {"a": {"main": ("B",)}}
