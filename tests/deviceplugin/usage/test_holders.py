"""The holders of each device, by the kubelet's checkpoint and by assignments."""

import msgspec

from cluster import names
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.usage.holders import by_device, holders
from tests.deviceplugin.agents import devices
from tests.deviceplugin.pods import held, pod

GPUS = devices(4)


def named(one: Pod, **added: str) -> Pod:
    annotations = {**(one.metadata.annotations or {}), **added}
    return msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, annotations=annotations)
    )


def test_a_holder_is_reported_with_pod_user_booking_and_source() -> None:
    alices = named(pod("a", assignment=["GPU-1"]), **{names.USER: "alice", names.BOOKING: "b-1"})
    (one,) = holders(GPUS, held(a="GPU-1"), (alices,))
    assert (one.device, one.index, one.uid, one.containers) == ("GPU-1", 1, "a", ("main",))
    assert (one.namespace, one.pod, one.user, one.booking) == ("default", "pod-a", "alice", "b-1")
    assert one.source == "kubelet"


def test_devices_given_by_the_kubelet_take_precedence_over_those_assigned() -> None:
    found = holders(GPUS, held(a="GPU-3"), (pod("a", assignment=["GPU-1"]),))
    assert [(one.device, one.source) for one in found] == [("GPU-3", "kubelet")]


def test_without_the_kubelet_s_checkpoint_holders_are_known_by_assignments_alone() -> None:
    found = holders(GPUS, None, (pod("a", assignment=["GPU-0"]), pod("b")))
    assert [(one.device, one.uid, one.source) for one in found] == [("GPU-0", "a", "assignment")]


def test_a_device_that_the_kubelet_has_not_given_yet_is_listed_beside_one_that_it_has() -> None:
    found = holders(GPUS, held(a="GPU-0"), (pod("a", 2, assignment=["GPU-0", "GPU-1"]),))
    assert [(one.device, one.source) for one in found] == [("GPU-0", "kubelet"), ("GPU-1", "assignment")]


def test_holders_are_listed_in_the_order_of_the_devices_and_of_their_uids() -> None:
    checkpoint = PodDevices(
        {("b", "main"): frozenset({"GPU-0", "GPU-2"}), ("a", "main"): frozenset({"GPU-2"})}
    )
    found = holders(GPUS[::-1], checkpoint, (pod("b", 2), pod("a")))
    assert [(one.device, one.uid) for one in found] == [("GPU-2", "a"), ("GPU-2", "b"), ("GPU-0", "b")]


def test_an_ended_pod_holds_nothing_even_if_the_checkpoint_keeps_it() -> None:
    ended = pod("a", assignment=["GPU-0"], phase="Succeeded")
    assert holders(GPUS, held(a="GPU-0", b="GPU-1"), (ended,)) == ()


def test_an_unknown_pod_is_reported_without_its_name_where_the_list_of_pods_is_old() -> None:
    ended = pod("a", phase="Failed")
    found = holders(GPUS, held(a="GPU-0", b="GPU-1"), (ended,), is_current=False)
    assert [(one.device, one.uid, one.pod) for one in found] == [("GPU-1", "b", "")]


def test_the_same_device_may_have_several_holders_and_a_pod_several_devices() -> None:
    checkpoint = PodDevices(
        {("a", "main"): frozenset({"GPU-0", "GPU-2"}), ("b", "main"): frozenset({"GPU-0"})},
        {f"{names.MIG_RESOURCE_PREFIX}1g.10gb": {("c", "main"): frozenset({"GPU-3"})}},
    )
    on = by_device(holders(GPUS, checkpoint, (pod("a", 2), pod("b"), pod("c"))))
    assert {device: [one.uid for one in those] for device, those in on.items()} == {
        "GPU-0": ["a", "b"],
        "GPU-2": ["a"],
        "GPU-3": ["c"],
    }
