"""The devices that a kubelet says it gave to a pod."""

import msgspec

from cluster.objects.given_devices import given_devices
from cluster.objects.pods import Pod


def told(*statuses: tuple[str, str, str], init: tuple[tuple[str, str, str], ...] = ()) -> Pod:
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


def test_the_gpus_of_all_containers_are_told_with_their_health() -> None:
    sidecar = ("nvidia.com/gpu", "GPU-b", "Unknown")
    pod = told(
        ("nvidia.com/gpu", "GPU-a", "Healthy"), ("nvidia.com/gpu", "GPU-c", "Unhealthy"), init=(sidecar,)
    )
    assert given_devices(pod) == {"GPU-a": True, "GPU-b": True, "GPU-c": False}


def test_a_turn_on_a_gpu_is_told_as_its_gpu_whatever_it_is_called() -> None:
    turns = (("nvidia.com/gpu", "GPU-a::3", "Healthy"), ("nvidia.com/gpu.shared", "GPU-b::0", "Healthy"))
    assert given_devices(told(*turns, ("nvidia.com/mig-1g.10gb", "MIG-c", "Healthy"))) == {
        "GPU-a": True,
        "GPU-b": True,
        "MIG-c": True,
    }


def test_devices_of_other_kinds_and_pods_whose_kubelet_tells_nothing_have_none() -> None:
    assert given_devices(told(("example.com/nic", "nic-0", "Healthy"))) == {}
    assert given_devices(Pod()) == {}
