"""What a node offers by claims while pods have devices by the device plugin, and the other way round."""

import json
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.kube.resources import NODES, RESOURCE_SLICES
from cluster.objects.inventory import Device
from deviceplugin.allocator import AllocatorSources
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.dra.neighbours import Neighbours
from deviceplugin.dra.prepare import Refusal
from deviceplugin.dra.prepared import PreparedClaim, PreparedFile
from deviceplugin.dra.registration import Endpoints
from deviceplugin.dra.serving import ClaimServing, ClaimSharing, claimed_parts, has_claims, held_by_claims
from deviceplugin.kubelet.checkpoint import NAME, CheckpointFile
from deviceplugin.kubelet.claim_users import NAME as STATE
from deviceplugin.kubelet.claim_users import ClaimUsers
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.kubeletapi.dra_v1 import api_pb2 as dra
from deviceplugin.nvml.watch import NvmlReport
from deviceplugin.usage.claimed import ClaimedPart
from tests.deviceplugin.dra.test_prepare import Lab, allocation
from tests.deviceplugin.kubelet.test_claim_users import claim, written
from tests.deviceplugin.kubelet.test_pod_source import Sources
from tests.deviceplugin.test_preparation import gpu
from tests.fakes.claim_kubelet import WIPED_AFTER, ClaimKubelet

NODE = "node-a"


@pytest.fixture
def short() -> Iterator[Path]:
    """A socket's path is short, and a test's folder is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "plugins_registry").mkdir()
        yield Path(folder)


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
        silent = Sources()  # neither the kubelet nor the API server answers
        self.sources = AllocatorSources(
            resource=names.GPU_RESOURCE,
            device_cache=self.cache,
            checkpoint=CheckpointFile(root, names.GPU_RESOURCE),
            pods=silent.pods,
        )
        self.plugin: str | None = None
        self.specification = b"{}"
        self.claims = self.serving()

    def serving(
        self, *, is_ending: bool = False, is_waiting: bool = False, file: PreparedFile | None = None
    ) -> ClaimServing:
        return ClaimServing(
            Endpoints(kubelet_root=self.root, driver=names.DRA_DRIVER, names=SocketNames("one", 1)),
            self.sources,
            self.kube,
            node=NODE,
            kubelet_state=self.root,
            cdi=self.root / "cdi",
            specification=lambda _nodes, _more: self.specification,
            file=file or self.lab.file,
            clock=FakeClock(self_advancing=True),
            sharing=ClaimSharing(is_offered=True, reserve=512),
            is_ending=is_ending,
            is_waiting=is_waiting,
            neighbours=Neighbours(lambda: self.plugin),
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
        self.claims.registration._step()
        self.claims.publisher.once()
        return self.published

    @property
    def published(self) -> set[str]:
        return {
            device["name"] for one in self.kube.list(RESOURCE_SLICES).items for device in one.spec.devices
        }

    def begin(self) -> None:
        """Another agent's process on the same machine serves and publishes."""
        self.claims = self.serving()
        self.claims.update(NvmlReport((gpu(0), gpu(1))))
        assert self.offered() == {"gpu-0", "gpu-1"}


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
    assert held_by_claims(lab.file) == frozenset({"GPU-1"})
    (tmp_path / "prepared.json").write_text("{")
    assert held_by_claims(lab.file) is None


def test_what_claims_have_is_told_with_the_pods_that_the_kubelet_names(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    users = ClaimUsers(tmp_path)
    assert claimed_parts(lab.file, users) == ()
    ten, whole = lab.claim("ten", allocation("gpu-0", memory=10)), lab.claim("whole", allocation("gpu-1"))
    assert all(isinstance(lab.driver.prepare(each), PreparedClaim) for each in (ten, whole))
    written(tmp_path, claim(ten.uid, "a", "b"))
    assert claimed_parts(lab.file, users) == (
        ClaimedPart(ten.uid, "GPU-0", 10, frozenset({"a", "b"})),
        ClaimedPart(whole.uid, "GPU-1"),
    )
    (tmp_path / STATE).write_text("?")
    assert {part.pods for part in claimed_parts(lab.file, users) or ()} == {frozenset[str]()}
    (tmp_path / "prepared.json").write_text("?")
    assert claimed_parts(lab.file, users) is None


def test_a_node_that_gives_its_gpus_in_another_way_now_ends_claims_and_offers_none(tmp_path: Path) -> None:
    """Otherwise the kubelet could not unprepare them, and their pods would not end."""
    site = Site(tmp_path)
    site.claims.update(NvmlReport((gpu(0), gpu(1))))
    assert site.offered() == {"gpu-0", "gpu-1"}
    claim = site.lab.claim("first", allocation("gpu-1"))
    assert isinstance(site.claims.driver.prepare(claim), PreparedClaim)
    assert has_claims(site.lab.file)
    ending = site.serving(is_ending=True)
    ending.publisher.once()
    assert [one.spec.devices for one in site.kube.list(RESOURCE_SLICES).items] == [()]
    assert isinstance(ending.driver.prepare(site.lab.claim("late", allocation("gpu-0"))), Refusal)
    assert ending.driver.unprepare(claim.uid) is None
    assert not has_claims(site.lab.file)


def test_l1_beside_another_plugin_nothing_is_offered_or_prepared_anew_and_claims_go_on(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    site.claims.update(NvmlReport((gpu(0), gpu(1))))
    running = site.lab.claim("running", allocation("gpu-0"))
    assert isinstance(site.claims.driver.prepare(running), PreparedClaim)
    late = site.lab.claim("late", allocation("gpu-1"))
    site.plugin = "NVIDIA's plugin is here."
    answer = site.claims.driver.prepare(late)
    assert isinstance(answer, Refusal)
    assert site.plugin in answer.message
    assert isinstance(site.claims.driver.prepare(running), PreparedClaim), "a container that starts again"
    assert site.offered() == set()
    assert site.claims.problem == site.plugin
    assert site.claims.driver.unprepare(running.uid) is None
    site.plugin = None
    assert site.offered() == {"gpu-0", "gpu-1"}
    assert isinstance(site.claims.driver.prepare(late), PreparedClaim)


def test_l1_beside_another_driver_ours_goes_but_for_claims_that_it_has_to_end(short: Path) -> None:
    site = Site(short)
    site.claims.update(NvmlReport((gpu(0), gpu(1))))
    assert site.offered() == {"gpu-0", "gpu-1"}
    running = site.lab.claim("running", allocation("gpu-0"))
    assert isinstance(site.claims.driver.prepare(running), PreparedClaim)
    theirs = {"driver": names.DRA_DRIVER, "nodeName": NODE, "devices": [{"name": "gpu-of-theirs"}]}
    site.kube.put(RESOURCE_SLICES, {"metadata": {"name": "theirs"}, "spec": theirs})
    assert site.offered() == {"gpu-of-theirs"}
    assert isinstance(site.claims.driver.prepare(site.lab.claim("late", allocation("gpu-1"))), Refusal)
    registry = short / "plugins_registry"
    site.offered()
    assert list(registry.iterdir()), "the kubelet can end the claim"
    site.claims.driver.unprepare(running.uid)
    site.offered()
    assert not list(registry.iterdir())
    site.kube.delete(RESOURCE_SLICES, "theirs")
    site.offered()
    assert site.offered() == {"gpu-0", "gpu-1"}
    site.claims.registration._end()


def test_a_node_that_waits_for_its_claims_offers_nothing_and_lets_those_start_that_have_a_device(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    waiting = site.claims = site.serving(is_waiting=True)
    waiting.update(NvmlReport((gpu(0), gpu(1))))
    closed = tuple(Device(uuid=f"GPU-{n}", index=n, model="A100", health="unhealthy") for n in range(2))
    now = site.cache.now
    site.cache.put(replace(now, devices=closed, closed=frozenset({"GPU-0"})))
    assert site.offered() == set()
    assert isinstance(waiting.driver.prepare(site.lab.claim("starts", allocation("gpu-0"))), PreparedClaim)
    assert isinstance(waiting.driver.prepare(site.lab.claim("sick", allocation("gpu-1"))), Refusal)


def test_a_socket_that_somebody_deletes_comes_again_and_a_living_agent_s_stays() -> None:
    # A socket's path is short, and a test's folder is not.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as other:
        registration, registry = Site(Path(folder)).claims.registration, Path(folder, "plugins_registry")
        registry.mkdir()
        living, dead = (registry / f"{names.SOCKET_PREFIX}{name}.sock" for name in ("living", "dead"))
        other.bind(str(living))
        other.listen()
        dead.touch()
        registration._step()
        (first,) = set(registry.iterdir()) - {living}
        first.unlink()
        for _ in range(2):
            registration._step()
        (second,) = set(registry.iterdir()) - {living}
        assert second != first
        registration._end()
        assert set(registry.iterdir()) == {living}


def test_slices_that_the_kubelet_deletes_are_back_with_the_driver_and_its_claims_go_on(short: Path) -> None:
    site, clock = Site(short), FakeClock()
    kubelet = ClaimKubelet(short, site.kube, clock, NODE)
    one = site.lab.claim("running", allocation("gpu-1"))
    running = dra.Claim(uid=one.uid, namespace=one.namespace, name=one.name)
    for away in (WIPED_AFTER - 1, WIPED_AFTER):
        site.begin()
        kubelet.look()
        assert site.claims.registration.is_registered
        clock.advance(WIPED_AFTER)
        kubelet.look()
        assert site.published, "it has come back in time"
        assert kubelet.prepared(running) == ["gpu-1"]
        site.claims.registration._end()
        kubelet.look()
        clock.advance(away)
        kubelet.look()
    assert not site.published
    site.begin()
    kubelet.restart()
    assert not site.published
    assert site.claims.registration.is_registered
    assert site.offered() == {"gpu-0", "gpu-1"}
    assert kubelet.prepared(running) == ["gpu-1"]
    site.claims.registration._end()
