"""Shares of GPUs, from the kubelet's question to the container's limits, over real sockets."""

import json
import os
from itertools import count

import grpc
import pytest

from cluster import mps_names, names
from cluster.fake.clock import FakeClock
from cluster.objects.slots import as_a_name, physical, slot_id
from deviceplugin.injection.mps_daemons import MpsDaemons
from tests.deviceplugin.agents import SHARED_MIB, RunningAgent, devices
from tests.fakes.kubelet import FakeContainer, FakeKubelet, FakePod

SHARED = names.SHARED_RESOURCE
_uid = count(1)


def sharing(
    name: str, memory: int = 8192, *, gpus: int = 1, init: bool = False, cores: int = 0
) -> FakeContainer:
    amounts = {names.GPU_MEMORY: memory, names.GPU_CORES: cores} if memory else {}
    return FakeContainer(name, gpus, init=init, resource=SHARED, amounts=amounts)


def a_pod(assigned: dict[str, list[str]], *containers: FakeContainer, **fields: object) -> FakePod:
    number = next(_uid)
    annotations = {names.ASSIGNED: json.dumps(assigned)}
    pod = FakePod(f"share-{number}", f"uid-s{number}", list(containers), annotations)
    for field, value in fields.items():
        setattr(pod, field, value)
    return pod


def a_share(gpu: str, memory: int = 8192, **fields: object) -> FakePod:
    return a_pod({"main": [gpu]}, sharing("main", memory), **fields)


def a_whole(gpu: str) -> FakePod:
    return a_pod({"main": [gpu]}, FakeContainer("main", 1))


def limits(agent: RunningAgent, slot: str) -> dict[str, str]:
    """The environment that a slot's CDI specification gives."""
    spec = json.loads((agent.cdi / f"{names.SHARE_FILE_PREFIX}{as_a_name(slot)}.json").read_text())
    (device,) = spec["devices"]
    assert f"{spec['kind']}={device['name']}" == f"{names.SHARE_KIND}={as_a_name(slot)}"
    return dict(entry.split("=", 1) for entry in device["containerEdits"]["env"])


def files(agent: RunningAgent) -> list[str]:
    return sorted(path.name for path in agent.cdi.glob("*"))


def test_a_burst_of_pods_on_one_node_gets_exactly_its_gpus_and_limits(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=devices(4), slots=16) as agent:
        pods = [a_share(f"GPU-{n * 7 % 4}", 256 * (n + 1)) for n in range(40)]
        for pod in pods:
            assert kubelet.admit(pod), pod.message
        for n, pod in enumerate(pods):
            kubelet.prestart(pod.uid, "main")
            (slot,) = kubelet.devices_of(pod.uid)
            gpu = f"GPU-{n * 7 % 4}"
            assert physical(slot) == gpu
            assert limits(agent, slot) == {
                names.DEVICES_VARIABLE: gpu,
                names.GPU_MEMORY_VARIABLE: str(256 * (n + 1)),
            }
        assert len({slot for pod in pods for slot in kubelet.devices_of(pod.uid)}) == 40
        assert agent.counted("admissions_total", verdict="assigned") == 40
        assert agent.counted("container_starts_total", gate="as-assigned") == 40


def test_the_lowest_free_slot_is_taken_and_names_its_cdi_device(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16):
        first, second, third = a_share("GPU-1"), a_share("GPU-1"), a_share("GPU-1")
        kubelet.admit(first)
        kubelet.admit(second)
        kubelet.end(first.uid)
        kubelet.admit(third)
    slot = slot_id("GPU-1", 0)
    assert kubelet.devices_of(third.uid) == {slot}
    answer = kubelet.answers[third.uid, "main"]
    assert [one.name for one in answer.cdi_devices] == [
        f"{names.CDI_KIND}=GPU-1",
        f"{names.SHARE_KIND}={as_a_name(slot)}",
    ]


def test_a_slot_of_an_init_container_goes_to_the_app_with_the_larger_limit(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        containers = (sharing("setup", 16384, init=True), sharing("main", 4096))
        pod = a_pod({"setup": ["GPU-2"], "main": ["GPU-2"]}, *containers)
        assert kubelet.admit(pod)
        slot = slot_id("GPU-2", 0)
        assert kubelet.held[pod.uid, "setup"] == kubelet.held[pod.uid, "main"] == {slot}
        for container in ("setup", "main"):
            kubelet.prestart(pod.uid, container)
            assert limits(agent, slot)[names.GPU_MEMORY_VARIABLE] == "16384"


def test_two_containers_of_a_pod_share_one_gpu_with_a_limit_each(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        pod = a_pod({"a": ["GPU-3"], "b": ["GPU-3"]}, sharing("a", 1000), sharing("b", 2000))
        assert kubelet.admit(pod)
        for container, limit in (("a", "1000"), ("b", "2000")):
            kubelet.prestart(pod.uid, container)
            (slot,) = kubelet.held[pod.uid, container]
            assert physical(slot) == "GPU-3"
            assert limits(agent, slot)[names.GPU_MEMORY_VARIABLE] == limit


def test_a_container_has_its_shares_on_different_gpus(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        assigned = a_pod({"main": ["GPU-3", "GPU-1"]}, sharing("main", 512, gpus=2))
        unknown = a_pod({}, sharing("main", 512, gpus=2))
        for pod in (assigned, unknown):
            assert kubelet.admit(pod)
            kubelet.prestart(pod.uid, "main")
            assert len({physical(slot) for slot in kubelet.devices_of(pod.uid)}) == 2
        for slot in kubelet.devices_of(assigned.uid):
            assert limits(agent, slot)[names.DEVICES_VARIABLE] == "GPU-1,GPU-3"
            assert limits(agent, slot)[names.GPU_MEMORY_VARIABLE] == "512,512"


def test_a_specification_of_an_earlier_holder_is_gone_before_the_next_one_starts(
    kubelet: FakeKubelet,
) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        first, second = a_share("GPU-0", 30000), a_share("GPU-0", 1024)
        kubelet.admit(first)
        kubelet.prestart(first.uid, "main")
        (slot,) = kubelet.devices_of(first.uid)
        kubelet.end(first.uid)
        assert limits(agent, slot)[names.GPU_MEMORY_VARIABLE] == "30000"
        kubelet.admit(second)
        assert kubelet.devices_of(second.uid) == {slot}
        assert files(agent) == []
        kubelet.prestart(second.uid, "main")
        assert limits(agent, slot)[names.GPU_MEMORY_VARIABLE] == "1024"


def test_an_agent_that_ended_between_allocation_and_start_tells_the_limit_later(
    kubelet: FakeKubelet,
) -> None:
    pod = a_share("GPU-1", 2048)
    with RunningAgent(kubelet, slots=16) as agent:
        kubelet.admit(pod)
        assert files(agent) == []
    with RunningAgent(kubelet, "agent-b", slots=16) as agent:
        kubelet.prestart(pod.uid, "main")
        assert limits(agent, slot_id("GPU-1", 0))[names.GPU_MEMORY_VARIABLE] == "2048"


def test_shares_survive_a_restart_of_the_kubelet(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        before, after = a_share("GPU-1", 2048), a_share("GPU-1", 4096)
        kubelet.admit(before)
        kubelet.restart()
        agent.wait_registered()
        kubelet.admit_first_batch([before])
        kubelet.admit(after)
        assert kubelet.devices_of(before.uid) == {slot_id("GPU-1", 0)}
        assert kubelet.devices_of(after.uid) == {slot_id("GPU-1", 1)}
        for pod, limit in ((before, "2048"), (after, "4096")):
            kubelet.prestart(pod.uid, "main")
            (slot,) = kubelet.devices_of(pod.uid)
            assert limits(agent, slot)[names.GPU_MEMORY_VARIABLE] == limit


def test_a_pod_that_is_deleted_while_it_is_admitted_leaves_the_others_their_gpus(
    kubelet: FakeKubelet,
) -> None:
    with RunningAgent(kubelet, slots=2) as agent:
        gone, later = a_share("GPU-2", deleting=True), a_share("GPU-2")
        assert kubelet.admit(gone)
        assert kubelet.admit(later)
        assert {physical(slot) for slot in kubelet.devices_of(later.uid)} == {"GPU-2"}
        assert agent.counted("admissions_total", verdict="assigned") == 2


@pytest.mark.parametrize("whole_first", [True, False])
@pytest.mark.parametrize("asks", [True, False])
def test_l1_a_gpu_is_never_given_whole_and_in_shares(
    kubelet: FakeKubelet, *, whole_first: bool, asks: bool
) -> None:
    with RunningAgent(kubelet, advertised=devices(1), slots=16):
        kubelet.asks_for_preferences = asks
        pods = [a_whole("GPU-0"), a_share("GPU-0")]
        first, second = pods if whole_first else pods[::-1]
        assert kubelet.admit(first)
        assert not kubelet.admit(second)
        assert first.name in second.message
        kubelet.end(first.uid)
        third = a_share("GPU-0") if whole_first else a_whole("GPU-0")
        assert kubelet.admit(third), third.message


def test_l1_neither_starts_if_the_kubelet_has_given_a_gpu_whole_and_in_shares(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        whole, share = a_whole("GPU-0"), a_share("GPU-1")
        kubelet.admit(whole)
        kubelet.admit(share)
        kubelet.held[whole.uid, "main"] = {"GPU-1"}
        kubelet.write_checkpoint()
        for pod in (whole, share):
            with pytest.raises(grpc.RpcError, match="whole to one pod"):
                kubelet.prestart(pod.uid, "main")
        assert agent.counted("container_starts_total", gate="share-conflict") == 2
        kubelet.end(whole.uid)
        kubelet.prestart(share.uid, "main")


def test_a_pod_without_an_assignment_takes_no_gpu_that_is_assigned_whole(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=devices(2), slots=16):
        assigned = a_pod({"main": ["GPU-0"]}, FakeContainer("main", 1), phase="Running", started=True)
        kubelet.pods[assigned.uid] = assigned
        pod = a_pod({}, sharing("main"))
        kubelet.admit(pod)
        assert {physical(slot) for slot in kubelet.devices_of(pod.uid)} == {"GPU-1"}


def test_a_share_waits_while_its_pod_is_not_proven(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        pod = a_share("GPU-1")
        kubelet.admit(pod)
        kubelet.damaged_checkpoint = '{"Data": 7}'
        kubelet.write_checkpoint()
        with pytest.raises(grpc.RpcError, match="as soon as its devices are recorded"):
            kubelet.prestart(pod.uid, "main")
        assert files(agent) == []
        kubelet.damaged_checkpoint = None
        kubelet.write_checkpoint()
        kubelet.prestart(pod.uid, "main")


def test_a_share_waits_while_its_limit_cannot_be_written(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, slots=16) as agent:
        pod = a_share("GPU-1")
        kubelet.admit(pod)
        agent.cdi.write_text("a file where the folder should be")
        with pytest.raises(grpc.RpcError, match="cannot be written"):
            kubelet.prestart(pod.uid, "main")
        agent.cdi.unlink()
        kubelet.prestart(pod.uid, "main")


def test_l1_a_share_of_another_gpu_than_assigned_starts_if_there_is_room(
    kubelet: FakeKubelet,
) -> None:
    with RunningAgent(kubelet, advertised=devices(1), slots=16) as agent:
        first, second = a_share("GPU-0", SHARED_MIB - 8192), a_share("GPU-9", 8193)
        for pod in (first, second):
            assert kubelet.admit(pod)
        kubelet.prestart(first.uid, "main")
        with pytest.raises(grpc.RpcError, match="left for shares"):
            kubelet.prestart(second.uid, "main")
        kubelet.end(first.uid)
        kubelet.prestart(second.uid, "main")
        assert agent.counted("container_starts_total", gate="other-devices") == 1


@pytest.mark.parametrize(
    ("assigned", "container"),
    [
        ({}, sharing("main", SHARED_MIB - 8191)),
        ({"main": ["GPU-9"]}, sharing("main", 1, cores=71)),
        ({}, sharing("main", 0)),
    ],
    ids=["memory, nothing assigned", "compute", "all that there is"],
)
def test_l1_a_pod_whose_place_nobody_has_counted_waits_until_there_is_room(
    kubelet: FakeKubelet, assigned: dict[str, list[str]], container: FakeContainer
) -> None:
    with RunningAgent(kubelet, advertised=devices(1), slots=16):
        first, second = a_pod({"main": ["GPU-0"]}, sharing("main", cores=30)), a_pod(assigned, container)
        for pod in (first, second):
            assert kubelet.admit(pod)
        kubelet.prestart(first.uid, "main")
        with pytest.raises(grpc.RpcError, match="left for shares"):
            kubelet.prestart(second.uid, "main")
        kubelet.end(first.uid)
        kubelet.prestart(second.uid, "main")


def test_a_pod_under_mps_starts_when_its_gpu_is_exclusive_with_its_limits_and_the_daemon_s_folder(
    kubelet: FakeKubelet,
) -> None:
    root = kubelet.root / "mps"
    state = root / "GPU-1" / mps_names.STATE
    state.parent.mkdir(parents=True)
    state.write_text(mps_names.EXCLUSIVE)
    daemons = MpsDaemons(root, FakeClock(self_advancing=True))
    daemons.answering()
    os.utime(state, (1, 1))
    with RunningAgent(kubelet, slots=16, daemons=daemons) as agent:
        pods = (a_share("GPU-1", 2048), a_share("GPU-1", 4096), a_pod({"main": ["GPU-0"]}, sharing("main")))
        for pod in pods[1:]:
            pod.annotations[names.SHARING_MODE] = "mps"
        for pod in pods:
            assert kubelet.admit(pod), pod.message
        kubelet.prestart(pods[1].uid, "main")
        (slot,) = kubelet.devices_of(pods[1].uid)
        pipe = str(root / "GPU-1" / mps_names.PIPES)
        assert limits(agent, slot)[mps_names.MEMORY_VARIABLE] == "0=4096M"
        assert limits(agent, slot)[mps_names.PIPE_VARIABLE] == pipe
        spec = json.loads((agent.cdi / f"{names.SHARE_FILE_PREFIX}{as_a_name(slot)}.json").read_text())
        (mount,) = spec["devices"][0]["containerEdits"]["mounts"]
        assert (mount["hostPath"], mount["containerPath"], mount["options"][0]) == (pipe, pipe, "rw")
        for pod, why in ((pods[0], "still in the compute mode"), (pods[2], "does not answer")):
            with pytest.raises(grpc.RpcError, match=why):
                kubelet.prestart(pod.uid, "main")
        assert (state.parent / mps_names.WANTED).exists(), "pods share it"
