"""Who has a GPU that a reservation pod keeps: those that see it, each as much as its limits say."""

from cluster import names
from cluster.objects.reservation_pods import visible_key
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.usage.holder_source import HolderSource
from tests.fakes.objects import a100, a_pod


class Checkpoint:
    """The kubelet knows of the reservation pod alone."""

    def read(self) -> PodDevices:
        return PodDevices({("uid-r", "main"): frozenset({"GPU-1"})})


def test_pods_that_see_a_gpu_are_its_holders_and_have_a_limit() -> None:
    cache = DeviceCache()
    cache.put(AdvertisedDevices((a100(0, uuid="GPU-0"), a100(1, uuid="GPU-1")), reported=True))
    reservation = a_pod("r").asks(1).with_annotation(names.RESERVES, "n0-0").on("n0", {"main": ("n0-0",)})
    sharers = [
        a_pod(name)
        .shares(memory=1000)
        .with_annotation(visible_key("main"), "GPU-1")
        .on("n0", {"main": ("n0-0",)})
        for name in ("a", "b")
    ]
    pods = tuple(one.obj for one in (reservation, *sharers))
    seen = HolderSource(cache, Checkpoint(), lambda: pods).snapshot()
    assert {(one.device, one.pod) for one in seen.held} == {("GPU-1", name) for name in ("r", "a", "b")}
    assert seen.shares == {("GPU-1", f"uid-{name}"): 1000 << 20 for name in ("a", "b")}
