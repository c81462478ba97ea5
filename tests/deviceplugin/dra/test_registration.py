"""The driver over its sockets, called as kubelets do: which versions it has, also after one's restart."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from deviceplugin.dra.driver import Pool
from deviceplugin.dra.registration import DriverRegistration, Endpoints
from deviceplugin.dra.servicer import PLUGIN_TYPE, Health
from deviceplugin.kubelet.channel import channel
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.kubeletapi.dra_health_v1 import api_pb2 as health
from deviceplugin.kubeletapi.dra_v1 import api_pb2 as dra
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2 as registration
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2_grpc as registration_grpc
from tests.deviceplugin.dra.test_prepare import DEVICES, NODE, Lab, allocation


class Driver:
    """One that is served from a folder as short as a socket's path must be."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self.lab, self.root, self.published = lab, root, threading.Semaphore(0)
        root.joinpath("plugins_registry").mkdir()  # the kubelet makes it
        pool = Pool(driver=names.DRA_DRIVER, node=NODE, devices=lambda: DEVICES)
        endpoints = Endpoints(kubelet_root=root, driver=names.DRA_DRIVER, names=SocketNames("agent", 1))
        self.registration = DriverRegistration(
            endpoints,
            lab.driver,
            Health(pool, lab.device_cache, SystemClock()),
            pool,
            rejection=lambda: None,
            registered=self.published.release,
            clock=SystemClock(),
        )

    def socket(self) -> Path:
        """The one that the kubelet finds."""
        found: list[Path] = []
        folder = self.root / "plugins_registry"
        eventually(lambda: found.extend(folder.glob("*.sock")) or bool(found))
        return found[0]

    def registered(self) -> registration.PluginInfo:
        """What the kubelet learns, and its answer that it has the driver."""
        with closing(channel(self.socket())) as line:
            stub = registration_grpc.RegistrationStub(line)
            info = stub.GetInfo(registration.InfoRequest(), wait_for_ready=True)
            stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True))
        return info


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with tempfile.TemporaryDirectory() as root, served(Driver(Lab(tmp_path), Path(root))) as one:
        yield one


@contextmanager
def served(driver: Driver) -> Iterator[Driver]:
    stop = threading.Event()
    thread = threading.Thread(target=driver.registration.run, args=(stop,))
    thread.start()
    try:
        yield driver
    finally:
        stop.set()
        thread.join()


def prepared(line: grpc.Channel, service: str, uid: str, name: str) -> list[tuple[str, str]]:
    """(Request, device) of each that the kubelet gets for a claim."""
    call = line.unary_unary(
        f"/{service}/NodePrepareResources",
        request_serializer=dra.NodePrepareResourcesRequest.SerializeToString,
        response_deserializer=dra.NodePrepareResourcesResponse.FromString,
    )
    claim = dra.Claim(uid=uid, namespace="team", name=name)
    answer = call(dra.NodePrepareResourcesRequest(claims=[claim]), wait_for_ready=True).claims[uid]
    assert not answer.error
    return [(request, one.device_name) for one in answer.devices for request in one.request_names]


def test_each_kubelet_finds_a_version_that_it_knows(driver: Driver) -> None:
    info = driver.registered()
    assert (info.type, info.name) == (PLUGIN_TYPE, names.DRA_DRIVER)
    claim = driver.lab.claim("first", allocation("gpu-1"))
    with closing(channel(Path(info.endpoint))) as line:
        for version in info.supported_versions:
            api, _, service = version.partition(".")
            if service == "DRAPlugin":  # and the same claim again has the same device
                path = f"k8s.io.kubelet.pkg.apis.dra.{api}.{service}"
                assert prepared(line, path, claim.uid, claim.name) == [("gpu", "gpu-1")]
            else:
                watch = line.unary_stream(
                    f"/{version}/NodeWatchResources",
                    request_serializer=health.NodeWatchResourcesRequest.SerializeToString,
                    response_deserializer=health.NodeWatchResourcesResponse.FromString,
                )
                stream = watch(health.NodeWatchResourcesRequest(), wait_for_ready=True)
                assert {one.device.device_name for one in next(stream).devices} == set(DEVICES)
                stream.cancel()
    assert {one.partition(".")[0] for one in info.supported_versions} == {"v1", "v1beta1", "v1alpha1"}


def test_a_container_that_names_a_request_gets_whichever_alternative_it_was_met_by(driver: Driver) -> None:
    """The kubelet compares the names: of an alternative it is ``request/alternative`` in the allocation."""
    claim = driver.lab.claim("first", allocation("gpu-1", request="gpu/small"))
    with closing(channel(Path(driver.registered().endpoint))) as line:
        service = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
        assert prepared(line, service, claim.uid, claim.name) == [("gpu", "gpu-1")]


def test_devices_are_published_anew_whenever_a_kubelet_has_registered_the_driver(driver: Driver) -> None:
    for _restart in range(2):
        driver.registered()
        assert driver.published.acquire(timeout=60)
    assert driver.registration.is_registered
