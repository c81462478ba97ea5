"""Who holds what, by the kubelet's checkpoint: under every resource, in every container."""

import pytest

from deviceplugin.allocation.pod_devices import PodDevices
from tests.deviceplugin.pods import GPU, MIG

CHECKPOINT = PodDevices(
    {
        ("a", "setup"): frozenset({"A"}),
        ("a", "main"): frozenset({"A", "B"}),
        ("b", "main"): frozenset({"C"}),
    },
    {
        MIG: {("a", "main"): frozenset({"M1"}), ("c", "main"): frozenset({"M2"})},
        "nvidia.com/mig-2g.10gb": {},
    },
)
"""Pod a has GPUs in two containers and a MIG device beside them, b a GPU, c a MIG device."""


@pytest.mark.parametrize(
    ("uids", "devices"), [("a", "A B M1"), ("b", "C"), ("c", "M2"), ("a c", "A B M1 M2"), ("z", ""), ("", "")]
)
def test_a_pod_holds_its_devices_of_every_resource(uids: str, devices: str) -> None:
    assert CHECKPOINT.of_any(set(uids.split())) == frozenset(devices.split())
    if len(uids) == 1:
        assert CHECKPOINT.of(uids) == frozenset(devices.split())


@pytest.mark.parametrize(
    ("devices", "uids"), [("A", "a"), ("B C", "a b"), ("M1", "a"), ("A M2", "a c"), ("Z", ""), ("", "")]
)
def test_holders_of_devices_are_the_pods_that_have_one_of_them(devices: str, uids: str) -> None:
    assert CHECKPOINT.holders(devices.split()) == frozenset(uids.split())


@pytest.mark.parametrize(
    ("container", "is_served"),
    [
        (("a", "setup"), True),
        (("a", "main"), True),
        (("a", "side"), False),
        (("b", "setup"), False),
        (("c", "main"), False),
    ],
)
def test_a_container_is_served_when_it_has_devices_of_the_resource_itself(
    container: tuple[str, str], *, is_served: bool
) -> None:
    assert CHECKPOINT.has(*container) is is_served


def test_the_checkpoint_gives_all_devices_and_all_pods() -> None:
    assert CHECKPOINT.devices == {"A", "B", "C", "M1", "M2"}
    assert CHECKPOINT.uids == {"a", "b", "c"}
    assert (PodDevices().devices, PodDevices().uids) == (frozenset(), frozenset())


def test_a_container_that_asks_for_two_resources_has_the_devices_of_both() -> None:
    assert CHECKPOINT.of_containers == {
        ("a", "setup"): {"A"},
        ("a", "main"): {"A", "B", "M1"},
        ("b", "main"): {"C"},
        ("c", "main"): {"M2"},
    }


def test_a_part_of_the_checkpoint_has_these_pods_alone_under_every_resource() -> None:
    part = CHECKPOINT.of_pods({"a", "z"})
    assert part.uids == {"a"}
    assert part.of("a") == CHECKPOINT.of("a")
    assert part.has("a", "setup")
    assert CHECKPOINT.of_pods({"c"}).devices == {"M2"}
    assert CHECKPOINT.of_pods(set()).devices == frozenset()


def test_devices_are_distinguished_by_resource_and_one_without_devices_is_left_out() -> None:
    assert CHECKPOINT.by_resource(GPU) == {GPU: {"A", "B", "C"}, MIG: {"M1", "M2"}}
    assert PodDevices().by_resource(GPU) == {}
