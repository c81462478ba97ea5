"""Staying registered with the kubelet: restarts, hand-over, and the trap of a reused socket name."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import grpc
import msgspec
import pytest

from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.interface import Selection
from cluster.kube.node_lease import LeaseRenewer
from cluster.kube.resources import LEASES
from cluster.process.clock import SystemClock
from deviceplugin.kubelet.registration import SocketNames
from deviceplugin.kubelet.registrations import CHECK_EVERY
from deviceplugin.kubelet.streams import Streams
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2, api_pb2_grpc
from tests.deviceplugin.agents import RunningAgent, devices, sockets
from tests.deviceplugin.test_allocator_with_a_kubelet import a_pod
from tests.fakes.kubelet import GPU, FakeKubelet


def test_an_agent_is_registered_once_and_stays_so(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet) as agent:
        assert kubelet.allocatable == 4
        assert agent.registrar.problem is None
        assert len(kubelet.registered) == 1
        assert sockets(kubelet.plugins) == kubelet.registered
        assert agent.counted("registered", resource=GPU) in (0.0, 1.0)
        eventually(lambda: agent.counted("registered", resource=GPU) == 1)


def test_a_change_is_pushed_at_once(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet) as agent:
        well = devices(4)
        unhealthy = msgspec.structs.replace(well[0], health="unhealthy", reason="XID 79")
        agent.advertise((unhealthy, *well[1:]))
        eventually(lambda: (kubelet.capacity, kubelet.allocatable) == (4, 3))
        agent.advertise(well)
        eventually(lambda: kubelet.allocatable == 4)


def test_the_numa_node_is_reported_where_it_is_known(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=(*devices(1), *devices(2, numa=1)[1:])):
        assert not kubelet.devices["GPU-0"].HasField("topology")
        assert [node.ID for node in kubelet.devices["GPU-1"].topology.nodes] == [1]


def test_the_plugin_registers_with_a_restarted_kubelet_under_a_new_name(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet) as agent:
        for _ in range(3):
            kubelet.restart()
            agent.wait_registered()
        assert kubelet.refusals == []
        assert len(set(kubelet.registered)) == len(kubelet.registered) == 4
        assert sockets(kubelet.plugins) == kubelet.registered[-1:]


def test_an_agent_that_starts_before_the_kubelet_waits_for_it(kubelet: FakeKubelet) -> None:
    kubelet.stop()
    agent = RunningAgent(kubelet)
    agent._thread.start()
    eventually(lambda: "does not answer" in (agent.registrar.problem or ""))
    kubelet.start()
    agent.wait_registered()
    agent.stop()


def test_an_agent_without_devices_does_not_register(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=()) as agent:
        assert not agent.registrar.is_registered
        assert kubelet.registered == []
        agent.advertise(devices(2))
        agent.wait_registered()
        assert kubelet.allocatable == 2


def test_an_agent_without_devices_checks_once_a_second_and_asks_the_kubelet_nothing(
    kubelet: FakeKubelet,
) -> None:
    clock = FakeClock()
    with RunningAgent(kubelet, advertised=(), clock=clock) as agent:
        for _ in range(10):
            clock.until_waiting()
            clock.advance(CHECK_EVERY)
        clock.until_waiting()
        assert clock.waits == [1.0] * 11
        assert agent.counted("registrations_total", result="failed") == 0
        assert (kubelet.registered, kubelet.refusals) == ([], [])


def test_a_rolling_hand_over_leaves_no_gap(kubelet: FakeKubelet) -> None:
    old = RunningAgent(kubelet, "old").__enter__()
    for instance in ("new", "newer"):
        new = RunningAgent(kubelet, instance).__enter__()
        old.stop()
        eventually(lambda: len(sockets(kubelet.plugins)) == 1)
        assert new.names.is_ours(sockets(kubelet.plugins)[0])
        assert kubelet.allocatable == 4
        assert new.registrar.is_registered
        pod = a_pod("GPU-3")
        assert kubelet.admit(pod)
        assert kubelet.devices_of(pod.uid) == {"GPU-3"}
        kubelet.end(pod.uid)
        old = new
    assert kubelet.refusals == []
    old.stop()
    eventually(lambda: kubelet.allocatable == 0)
    assert sockets(kubelet.plugins) == []


def test_the_older_agent_registers_again_when_the_newer_dies(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, "old") as old:
        new = RunningAgent(kubelet, "new").__enter__()
        new.stop()
        eventually(lambda: len(kubelet._store) == 1)
        assert kubelet.allocatable == 4
        assert old.registrar.is_registered
        assert kubelet.admit(a_pod("GPU-1"))


def test_an_agent_never_touches_the_sockets_of_another(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, "a-1"):
        mine = sockets(kubelet.plugins)
        with RunningAgent(kubelet, "a"):
            assert set(mine) < set(sockets(kubelet.plugins))
        assert sockets(kubelet.plugins) == mine


def test_an_agent_removes_sockets_that_its_own_instance_left_behind(kubelet: FakeKubelet) -> None:
    left = kubelet.plugins / SocketNames("agent-a", 17).next()
    left.touch()
    with RunningAgent(kubelet, "agent-a"):
        assert not left.exists()


class _Simple(api_pb2_grpc.DevicePluginServicer):
    """A plugin with one device."""

    def GetDevicePluginOptions(
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> api_pb2.DevicePluginOptions:
        del request, context
        return api_pb2.DevicePluginOptions()

    def ListAndWatch(
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        del request
        ended = threading.Event()
        context.add_callback(ended.set)
        yield api_pb2.ListAndWatchResponse(devices=[api_pb2.Device(ID="GPU-0", health="Healthy")])
        ended.wait()

    def GetPreferredAllocation(self, request: object, context: object) -> NoReturn:
        raise NotImplementedError

    def Allocate(self, request: object, context: object) -> NoReturn:
        raise NotImplementedError

    def PreStartContainer(self, request: object, context: object) -> NoReturn:
        raise NotImplementedError


def test_registering_one_socket_name_twice_loses_the_plugin_for_good(kubelet: FakeKubelet) -> None:
    """What our agent must never do; shows that the fake kubelet would notice."""
    server = grpc.server(ThreadPoolExecutor(4))

    api_pb2_grpc.add_DevicePluginServicer_to_server(_Simple(), server)
    server.add_insecure_port(f"unix:{kubelet.plugins}/same.sock")
    server.start()
    with grpc.insecure_channel(f"unix:{kubelet.plugins}/kubelet.sock") as channel:
        stub = api_pb2_grpc.RegistrationStub(channel)
        request = api_pb2.RegisterRequest(version="v1beta1", endpoint="same.sock", resource_name=GPU)
        stub.Register(request)
        eventually(lambda: kubelet.allocatable == 1)
        with pytest.raises(grpc.RpcError, match="already connected"):
            stub.Register(request)
    server.stop(0).wait()
    eventually(lambda: kubelet.streams_ended == 1)
    assert kubelet.allocatable == 1, "the kubelet has not noticed that the plugin is gone"


def test_the_lease_is_held_only_while_the_kubelet_has_the_devices(kubelet: FakeKubelet) -> None:
    kube, clock = FakeKube(FakeClock()), SystemClock()

    def is_held() -> bool:
        found = kube.list(LEASES, Selection(namespace=names.NAMESPACE)).items
        return bool(found) and found[0].metadata.annotation(names.STOPPING) is None

    kubelet.stop()
    agent, stop = RunningAgent(kubelet), threading.Event()
    lease = LeaseRenewer(
        kube,
        clock,
        name=names.node_lease("n0"),
        holder="a",
        serves=lambda: agent.registrar.is_registered,
    )
    renewing = threading.Thread(target=lease.run, args=(stop,))
    renewing.start()
    agent._thread.start()
    eventually(lambda: "does not answer" in (agent.registrar.problem or ""))
    assert kube.calls == []
    kubelet.start()
    eventually(is_held)
    assert kubelet.capacity == 4
    kubelet.stop()
    eventually(lambda: not is_held())
    kubelet.start()
    eventually(is_held)
    stop.set()
    renewing.join()
    agent.stop()


def test_the_node_does_not_serve_while_a_listening_kubelet_has_no_list_yet(kubelet: FakeKubelet) -> None:
    wake, registrar = threading.Event(), RunningAgent(kubelet).registrar._registration(GPU)
    registrar._streams.opened(wake)
    assert not registrar.is_registered
    registrar._streams.listed(wake)
    assert registrar.is_registered


def test_the_node_serves_once_a_listening_kubelet_has_been_sent_the_devices() -> None:
    streams, wake = Streams(), threading.Event()
    streams.opened(wake)
    assert streams.is_open
    assert not streams.is_listed
    streams.listed(wake)
    assert streams.is_listed
    streams.ended(wake)
    streams.listed(wake)
    assert not streams.is_listed
