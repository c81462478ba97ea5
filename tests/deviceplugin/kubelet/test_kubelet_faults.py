"""What somebody does to the kubelet's files and sockets while pods come and go."""

import json

from cluster.fake.clock import eventually
from deviceplugin.kubelet.pods_api import RETRIES, decode
from tests.deviceplugin.agents import RunningAgent, devices, sockets
from tests.deviceplugin.test_allocator_with_a_kubelet import a_pod
from tests.fakes.kubelet import FakeKubelet


def test_a_deleted_socket_of_ours_does_no_harm_until_the_kubelet_restarts(
    kubelet: FakeKubelet,
) -> None:
    with RunningAgent(kubelet) as agent:
        for name in sockets(kubelet.plugins):
            (kubelet.plugins / name).unlink()
        pod = a_pod("GPU-2")
        assert kubelet.admit(pod)
        assert kubelet.devices_of(pod.uid) == {"GPU-2"}
        kubelet.prestart(pod.uid, "main")
        kubelet.restart()
        agent.wait_registered()
        kubelet.admit_first_batch([])
        assert sockets(kubelet.plugins) == kubelet.registered[-1:]
        assert kubelet.admit(a_pod("GPU-3"))


def test_deleted_sockets_of_the_kubelet_do_no_harm_to_a_registered_agent(
    kubelet: FakeKubelet,
) -> None:
    with RunningAgent(kubelet) as agent:
        assert kubelet.admit(a_pod("GPU-0"))
        (kubelet.plugins / "kubelet.sock").unlink()
        second = a_pod("GPU-1")
        assert kubelet.admit(second)
        assert kubelet.devices_of(second.uid) == {"GPU-1"}
        assert agent.registrar.is_registered
        assert len(kubelet.registered) == 1


def test_without_the_pods_api_s_socket_the_api_server_identifies_the_pod(kubelet: FakeKubelet) -> None:
    pod = a_pod("GPU-2")
    with RunningAgent(kubelet, stored=lambda: (decode(pod.marshal()),)) as agent:
        (kubelet.root / "pods-api" / "pods-api.sock").unlink()
        assert kubelet.admit(pod)
        assert kubelet.devices_of(pod.uid) == {"GPU-2"}
        assert agent.counted("admissions_total", verdict="assigned") == 1


def test_the_api_server_replaces_a_pods_api_that_is_flooded_for_too_long(
    kubelet: FakeKubelet,
) -> None:
    pod = a_pod("GPU-2")
    with RunningAgent(kubelet, stored=lambda: (decode(pod.marshal()),)) as agent:
        kubelet.flooded = 10 * RETRIES
        assert kubelet.admit(pod)
        kubelet.flooded = 0
        assert kubelet.devices_of(pod.uid) == {"GPU-2"}
        assert agent.counted("admissions_total", verdict="assigned") == 1
        kubelet.prestart(pod.uid, "main")


def test_a_deleted_checkpoint_gives_no_device_to_two_pods(kubelet: FakeKubelet) -> None:
    """A kubelet that starts without it takes every device for free; assignments still show whose it is."""
    with RunningAgent(kubelet) as agent:
        first = a_pod("GPU-1", phase="Running", started=True)
        assert kubelet.admit(first)
        kubelet.checkpoint.unlink()
        kubelet.prestart(first.uid, "main")
        kubelet.stop()
        kubelet.held, kubelet.allocated = {}, set()
        kubelet.start()
        agent.wait_registered()
        for pod in (a_pod("GPU-3"), a_pod(), a_pod()):
            assert kubelet.admit(pod)
            assert kubelet.devices_of(pod.uid) != {"GPU-1"}


def test_a_checkpoint_of_an_unknown_version_stops_no_pod(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=devices(2)) as agent:
        kubelet.damaged_checkpoint = json.dumps({"Data": {"PodDeviceEntries": {"v3": []}}, "Checksum": 1})
        kubelet.write_checkpoint()
        pod = a_pod("GPU-1")
        assert kubelet.admit(pod)
        kubelet.prestart(pod.uid, "main")
        kubelet.damaged_checkpoint = None
        kubelet.write_checkpoint()
        kubelet.prestart(pod.uid, "main")
        assert agent.counted("container_starts_total", gate="unchecked") == 1
        eventually(lambda: agent.counted("checkpoint_errors_total") >= 1)


def test_two_agents_on_one_node_give_no_device_twice(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, "old"):
        first = a_pod("GPU-0")
        assert kubelet.admit(first)
        with RunningAgent(kubelet, "new"):
            second = a_pod("GPU-1")
            assert kubelet.admit(second)
        eventually(lambda: len(kubelet._store) == 1)
        third = a_pod("GPU-2")
        assert kubelet.admit(third)
        held = [kubelet.devices_of(pod.uid) for pod in (first, second, third)]
        assert held == [{"GPU-0"}, {"GPU-1"}, {"GPU-2"}]
