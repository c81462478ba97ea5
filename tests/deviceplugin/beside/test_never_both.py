"""Two plugins never give out the GPUs of one node."""

from cluster.fake.clock import eventually
from deviceplugin.kubelet.second_plugin import OtherPlugin
from tests.deviceplugin.agents import RunningAgent, devices, sockets
from tests.fakes.kubelet import GPU, FakeKubelet
from tests.standin.running import running, whole


def test_the_agent_does_not_register_beside_another_plugin_and_does_once_that_has_gone(
    kubelet: FakeKubelet,
) -> None:
    agent = RunningAgent(kubelet, advertised=())
    with agent:
        with running(kubelet, whole()):
            eventually(lambda: kubelet.allocatable == 4)
            agent.advertise(devices())
            eventually(lambda: "nvidia-gpu.sock" in (agent.registrar.problem or ""))
            eventually(lambda: agent.counted("other_plugin") == 1)
            kubelet.restart()
            eventually(lambda: kubelet.allocatable == 4)
            assert kubelet.registered[-1] == "nvidia-gpu.sock"
        agent.wait_registered()
        assert agent.counted("other_plugin") == 0


def test_devices_that_are_no_uuids_of_this_node_tell_of_another_plugin(kubelet: FakeKubelet) -> None:
    ours = frozenset(device.uuid for device in devices())
    other = OtherPlugin(kubelet.plugins, lambda: ours)
    with RunningAgent(kubelet):
        assert other() is None
    with running(kubelet, {GPU: (["GPU-0-1"], 1)}):
        eventually(lambda: kubelet.allocatable == 1)
        assert other() is not None
    assert sockets(kubelet.plugins) == []
    assert other() is None
