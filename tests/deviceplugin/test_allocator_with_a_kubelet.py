"""From the kubelet's question to the device in the container, over real sockets."""

import json
from itertools import count

import grpc
import pytest

from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod
from deviceplugin.kubelet.pods_api import decode
from tests.deviceplugin.agents import RunningAgent, devices
from tests.fakes.kubelet import FakeContainer, FakeKubelet, FakePod

_uid = count(1)


def a_pod(
    *assigned: str, containers: list[FakeContainer] | None = None, name: str = "", **fields: object
) -> FakePod:
    """A pod whose first app container was assigned these devices."""
    number = next(_uid)
    made = containers or [FakeContainer("main", len(assigned) or 1)]
    main = next(c.name for c in made if not c.init and not c.sidecar)
    annotations = {names.ASSIGNED: json.dumps({main: assigned})} if assigned else {}
    pod = FakePod(name or f"pod-{number}", f"uid-{number}", made, annotations)
    for field, value in fields.items():
        setattr(pod, field, value)
    return pod


def with_assignments(pod: FakePod, **assignments: list[str]) -> FakePod:
    pod.annotations = {names.ASSIGNED: json.dumps(assignments)}
    return pod


def test_a_burst_gets_exactly_the_assigned_devices(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=devices(8)) as agent:
        for device in (f"GPU-{i}" for i in (5, 2, 7, 0, 1, 6, 3, 4)):
            pod = a_pod(device)
            assert kubelet.admit(pod)
            assert kubelet.devices_of(pod.uid) == {device}
            kubelet.prestart(pod.uid, "main")
        assert agent.counted("admissions_total", verdict="assigned") == 8
        assert agent.counted("container_starts_total", gate="as-assigned") == 8
        assert "List" not in kubelet.calls


def test_the_container_gets_cdi_devices_and_their_uuids(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet):
        pod = a_pod("GPU-2", "GPU-1")
        kubelet.admit(pod)
    answer = kubelet.answers[pod.uid, "main"]
    assert [device.name for device in answer.cdi_devices] == [
        f"{names.CDI_KIND}=GPU-1",
        f"{names.CDI_KIND}=GPU-2",
    ]
    assert dict(answer.envs) == {names.DEVICES_VARIABLE: "GPU-1,GPU-2"}


def test_every_kind_of_container_gets_its_own_devices(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet):
        containers = [
            FakeContainer("setup", 1, init=True),
            FakeContainer("proxy", 1, sidecar=True),
            FakeContainer("main", 2),
        ]
        pod = with_assignments(
            a_pod(containers=containers), setup=["GPU-3"], proxy=["GPU-3"], main=["GPU-2", "GPU-0"]
        )
        assert kubelet.admit(pod)
        assert kubelet.held[pod.uid, "setup"] == {"GPU-3"}
        assert kubelet.held[pod.uid, "proxy"] == {"GPU-3"}
        assert kubelet.held[pod.uid, "main"] == {"GPU-2", "GPU-0"}
        for container in ("setup", "proxy", "main"):
            kubelet.prestart(pod.uid, container)


def test_devices_of_an_init_container_are_used_again_and_completed(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet) as agent:
        containers = [FakeContainer("setup", 1, init=True), FakeContainer("main", 2)]
        pod = with_assignments(a_pod(containers=containers), setup=["GPU-1"], main=["GPU-1", "GPU-3"])
        assert kubelet.admit(pod)
        assert kubelet.held[pod.uid, "main"] == {"GPU-1", "GPU-3"}
        assert agent.counted("admissions_total", verdict="assigned") == 2


def test_a_pod_that_runs_without_its_device_does_not_disturb_the_next(kubelet: FakeKubelet) -> None:
    ghost = a_pod("GPU-0", phase="Running", started=True)
    kubelet.pods[ghost.uid] = ghost
    with RunningAgent(kubelet):
        pod = a_pod("GPU-1")
        assert kubelet.admit(pod)
        assert kubelet.devices_of(pod.uid) == {"GPU-1"}


def test_a_flooded_pods_api_is_asked_again(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet) as agent:
        kubelet.flooded = 5
        pod = a_pod("GPU-2")
        assert kubelet.admit(pod)
        assert kubelet.devices_of(pod.uid) == {"GPU-2"}
        assert agent.counted("admissions_total", verdict="assigned") == 1


def test_the_first_pods_after_a_kubelet_start_are_identified_through_the_api_server(
    kubelet: FakeKubelet,
) -> None:
    pods = [a_pod("GPU-3"), a_pod("GPU-1"), a_pod("GPU-0", "GPU-2")]
    stored: tuple[Pod, ...] = tuple(decode(pod.marshal()) for pod in pods)
    gone = Pod(metadata=Meta(name="not-here", namespace="default", uid="other"))
    with RunningAgent(kubelet, stored=lambda: (*stored, gone)) as agent:
        kubelet.restart()
        kubelet.pods.clear()
        agent.wait_registered()
        kubelet.admit_first_batch(pods)
        assert [kubelet.devices_of(pod.uid) for pod in pods] == [{"GPU-3"}, {"GPU-1"}, {"GPU-0", "GPU-2"}]
        assert agent.counted("admissions_total", verdict="assigned") == 3


def test_the_list_of_accepted_pods_is_never_asked_for_while_devices_are_in_flight(
    kubelet: FakeKubelet,
) -> None:
    containers = [FakeContainer("setup", 1, init=True), FakeContainer("main", 2)]
    pod = with_assignments(a_pod(containers=containers), setup=["GPU-1"], main=["GPU-1", "GPU-3"])
    with RunningAgent(kubelet, stored=lambda: (decode(pod.marshal()),)) as agent:
        kubelet.restart()
        agent.wait_registered()
        kubelet.calls.clear()
        kubelet.admit_first_batch([pod])
        assert kubelet.calls.count("List") == 1
        assert kubelet.held[pod.uid, "main"] == {"GPU-1", "GPU-3"}


def test_a_device_that_the_kubelet_offers_by_mistake_is_avoided(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet):
        holder, assigned = a_pod("GPU-1"), a_pod("GPU-1")
        kubelet.admit(holder)
        kubelet.free_by_mistake(holder.uid)
        assert kubelet.admit(assigned)
        assert "GPU-1" in kubelet.available[-1]
        assert "GPU-1" not in kubelet.devices_of(assigned.uid)


def test_one_pod_too_many_is_refused_rather_than_sharing(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=devices(1)) as agent:
        holder, second = a_pod("GPU-0"), a_pod("GPU-0")
        kubelet.admit(holder)
        kubelet.free_by_mistake(holder.uid)
        assert not kubelet.admit(second)
        assert f"default/{holder.name}" in second.message
        assert agent.counted("admissions_total", verdict="refused") == 1


def test_allocate_refuses_a_device_that_another_living_pod_holds(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=devices(1)) as agent:
        holder, second = a_pod("GPU-0"), a_pod("GPU-0")
        kubelet.admit(holder)
        kubelet.free_by_mistake(holder.uid)
        kubelet.asks_for_preferences = False
        assert not kubelet.admit(second)
        assert "other living pods hold" in second.message
        assert agent.counted("allocations_total", result="refused") == 1


def test_two_pods_with_one_device_do_not_start(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet):
        first, second = a_pod("GPU-0"), a_pod("GPU-1")
        kubelet.admit(first)
        kubelet.admit(second)
        kubelet.held[second.uid, "main"] = {"GPU-0"}
        kubelet.write_checkpoint()
        with pytest.raises(grpc.RpcError, match="more than one pod"):
            kubelet.prestart(second.uid, "main")
        kubelet.end(first.uid)
        kubelet.prestart(second.uid, "main")


def test_a_pod_that_got_another_device_starts_and_is_counted(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet) as agent:
        pod = a_pod("GPU-9")
        kubelet.admit(pod)
        kubelet.prestart(pod.uid, "main")
        assert agent.counted("container_starts_total", gate="other-devices") == 1
        assert agent.counted("admissions_total", verdict="partly-assigned") == 1
