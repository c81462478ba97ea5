"""What a node offers by claims while pods have devices by the device plugin, and the other way round."""

import json
from pathlib import Path

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.kube.resources import NODES, RESOURCE_SLICES
from cluster.objects.inventory import Device
from deviceplugin.allocator import AllocatorSources
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.dra.registration import Endpoints
from deviceplugin.dra.serving import ClaimServing, held_by_claims
from deviceplugin.kubelet.checkpoint import NAME, CheckpointFile
from deviceplugin.kubelet.pod_source import PodSource
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.nvml.watch import NvmlReport
from tests.deviceplugin.dra.test_prepare import Lab, allocation
from tests.deviceplugin.test_preparation import gpu

NODE = "node-a"


class NoPods:
    """Neither the kubelet nor the API server answers."""

    def at_once(self) -> None:
        return None


class Site:
    """A node with two GPUs."""

    def __init__(self, root: Path) -> None:
        self.root, self.lab = root, Lab(root)
        self.kube = self.lab.kube
        self.kube.put(NODES, {"metadata": {"name": NODE}})
        devices = tuple(Device(uuid=f"GPU-{n}", index=n, model="A100") for n in range(2))
        nodes = DeviceNodes({one.uuid: (DeviceNode("/dev/x", "/dev/x"),) for one in devices})
        self.cache = DeviceCache()
        self.cache.put(AdvertisedDevices(devices, nodes, reported=True))
        pods: PodSource = NoPods()  # type: ignore[assignment]
        sources = AllocatorSources(
            resource=names.GPU_RESOURCE,
            device_cache=self.cache,
            checkpoint=CheckpointFile(root, names.GPU_RESOURCE),
            pods=pods,
        )
        self.claims = ClaimServing(
            Endpoints(kubelet_root=root, driver=names.DRA_DRIVER, names=SocketNames("one", 1)),
            sources,
            self.kube,
            node=NODE,
            cdi=root / "cdi",
            specification=lambda _: b"{}",
            file=self.lab.file,
            clock=FakeClock(self_advancing=True),
        )

    def pod_has(self, resource: str, device: str) -> None:
        entry = {
            "PodUID": "a",
            "ContainerName": "main",
            "ResourceName": resource,
            "DeviceIDs": {"-1": [device]},
        }
        text = json.dumps({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 0})
        (self.root / NAME).write_text(text)

    def offered(self) -> set[str]:
        self.claims.publisher.once()
        return {
            device["name"] for one in self.kube.list(RESOURCE_SLICES).items for device in one.spec.devices
        }


def test_a_gpu_that_pods_have_whole_or_in_shares_is_not_offered(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.claims.update(NvmlReport((gpu(0), gpu(1))))
    assert site.offered() == {"gpu-0", "gpu-1"}
    site.pod_has(names.SHARED_RESOURCE, "GPU-0::3")
    assert site.offered() == {"gpu-1"}
    site.pod_has(names.GPU_RESOURCE, "GPU-1")
    assert site.offered() == {"gpu-0"}


def test_what_claims_have_is_not_known_without_their_record(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert held_by_claims(lab.file) == frozenset()
    lab.driver.prepare(lab.claim("first", allocation("gpu-1")))
    assert held_by_claims(lab.file) == {"GPU-1"}
    (tmp_path / "prepared.json").write_text("{")
    assert held_by_claims(lab.file) is None
