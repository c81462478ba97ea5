"""The devices that a kubelet says it gave to a pod."""

import msgspec

from cluster import names
from cluster.objects.given_devices import given_devices
from cluster.objects.pods import Pod


def reported(*statuses: tuple[str, str, str], init: tuple[tuple[str, str, str], ...] = ()) -> Pod:
    """A pod of whose containers each has one device: resource, id, health."""

    def listed(each: tuple[tuple[str, str, str], ...]) -> list[object]:
        return [
            {
                "allocatedResourcesStatus": [
                    {"name": name, "resources": [{"resourceID": id_, "health": health}]}
                ]
            }
            for name, id_, health in each
        ]

    status = {"containerStatuses": listed(statuses), "initContainerStatuses": listed(init)}
    return msgspec.convert({"metadata": {}, "status": status}, Pod)


def test_the_gpus_of_all_containers_are_reported_with_their_health() -> None:
    sidecar = (names.GPU_RESOURCE, "GPU-b", "Unknown")
    pod = reported(
        (names.GPU_RESOURCE, "GPU-a", "Healthy"), (names.GPU_RESOURCE, "GPU-c", "Unhealthy"), init=(sidecar,)
    )
    assert given_devices(pod) == {"GPU-a": True, "GPU-b": True, "GPU-c": False}


def test_a_turn_on_a_gpu_is_reported_as_its_gpu_whatever_it_is_called() -> None:
    turns = ((names.GPU_RESOURCE, "GPU-a::3", "Healthy"), (names.SHARED_RESOURCE, "GPU-b::0", "Healthy"))
    assert given_devices(reported(*turns, (f"{names.MIG_RESOURCE_PREFIX}1g.10gb", "MIG-c", "Healthy"))) == {
        "GPU-a": True,
        "GPU-b": True,
        "MIG-c": True,
    }


def test_devices_of_other_kinds_and_pods_whose_kubelet_tells_nothing_have_none() -> None:
    assert given_devices(reported(("example.com/nic", "nic-0", "Healthy"))) == {}
    assert given_devices(Pod()) == {}
