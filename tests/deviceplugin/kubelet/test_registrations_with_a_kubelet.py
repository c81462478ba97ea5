"""Several resources in one agent: each registered by itself, and they come and go with the devices."""

import json
import threading
from typing import NoReturn

import pytest

from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.objects.inventory import Device, mig_model
from cluster.process.clock import SystemClock
from deviceplugin.allocation.mig_packing import Packing
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.registrations import RegistrationEndedError, Registrations
from tests.deviceplugin.agents import RunningAgent, devices, sockets
from tests.deviceplugin.test_allocator_with_a_kubelet import a_pod
from tests.fakes.hurried import HurriedClock
from tests.fakes.kubelet import GPU, FakeContainer, FakeKubelet, FakePod

SMALL, LARGE = f"{names.MIG_RESOURCE_PREFIX}1g.10gb", f"{names.MIG_RESOURCE_PREFIX}3g.40gb"
MODEL = "NVIDIA-A100-SXM4-80GB"


def cut(gpu: int, *profiles: str) -> tuple[Device, ...]:
    """A GPU and its MIG devices."""
    whole = Device(uuid=f"GPU-{gpu}", index=gpu, model=MODEL)
    parts = (
        Device(
            uuid=f"MIG-{gpu}-{n}",
            index=gpu,
            model=mig_model(MODEL, profile),
            parent=whole.uuid,
            profile=profile,
        )
        for n, profile in enumerate(profiles)
    )
    return whole, *parts


def parts_of(*gpus: tuple[Device, ...]) -> tuple[Device, ...]:
    """What is listed of them."""
    return tuple(device for gpu in gpus for device in gpu if device.parent)


def asking(resource: str, number: int = 1, **assignments: list[str]) -> FakePod:
    pod = a_pod(containers=[FakeContainer("main", number, resource=resource)])
    if assignments:
        pod.annotations = {names.ASSIGNED: json.dumps(assignments)}
    return pod


def lists_of(kubelet: FakeKubelet) -> dict[str, list[str]]:
    return {resource: sorted(some) for resource, some in kubelet.lists.items()}


def test_each_resource_is_registered_and_gives_its_own_devices(kubelet: FakeKubelet) -> None:
    advertised = (*devices(1), *parts_of(cut(1, "1g.10gb", "1g.10gb", "3g.40gb")))
    with RunningAgent(kubelet, advertised=advertised) as agent:
        assert lists_of(kubelet) == {GPU: ["GPU-0"], SMALL: ["MIG-1-0", "MIG-1-1"], LARGE: ["MIG-1-2"]}
        assert len(sockets(kubelet.plugins)) == len(kubelet.registered) == 3
        eventually(lambda: agent.counted("registered", resource=SMALL) == 1)
        for resource, expected in ((LARGE, "MIG-1-2"), (GPU, "GPU-0"), (SMALL, "MIG-1-0")):
            pod = asking(resource)
            assert kubelet.admit(pod), pod.message
            assert kubelet.devices_of(pod.uid) == {expected}
            kubelet.prestart(pod.uid, "main")
            (named,) = kubelet.answers[pod.uid, "main"].cdi_devices
            assert named.name == f"{names.CDI_KIND}={expected}"


def test_the_assigned_devices_of_a_profile_are_given(kubelet: FakeKubelet) -> None:
    with RunningAgent(kubelet, advertised=parts_of(cut(0, "1g.10gb", "1g.10gb"))) as agent:
        pod = asking(SMALL, main=["MIG-0-1"])
        assert kubelet.admit(pod)
        assert kubelet.devices_of(pod.uid) == {"MIG-0-1"}
        assert agent.counted("admissions_total", verdict="assigned") == 1


def test_a_pod_whose_containers_ask_for_several_resources_gets_all_of_them(kubelet: FakeKubelet) -> None:
    advertised = (*devices(2), *parts_of(cut(2, "1g.10gb", "1g.10gb")))
    with RunningAgent(kubelet, advertised=advertised) as agent:
        pod = a_pod(
            containers=[FakeContainer("setup", 1, init=True, resource=SMALL), FakeContainer("main", 1)]
        )
        pod.annotations = {names.ASSIGNED: json.dumps({"setup": ["MIG-2-1"], "main": ["GPU-1"]})}
        assert kubelet.admit(pod), pod.message
        assert kubelet.held == {(pod.uid, "setup"): {"MIG-2-1"}, (pod.uid, "main"): {"GPU-1"}}
        assert agent.counted("admissions_total", verdict="assigned") == 2


@pytest.mark.parametrize(("packing", "gpus"), [(Packing.DISTRIBUTED, 2), (Packing.PACKED, 1)])
def test_mig_devices_are_distributed_or_packed(kubelet: FakeKubelet, packing: Packing, gpus: int) -> None:
    advertised = parts_of(cut(0, *["1g.10gb"] * 4), cut(1, *["1g.10gb"] * 4))
    with RunningAgent(kubelet, advertised=advertised, packing=packing):
        pods = [asking(SMALL), asking(SMALL)]
        assert all(kubelet.admit(pod) for pod in pods)
        taken = {device.split("-")[1] for pod in pods for device in kubelet.devices_of(pod.uid)}
        assert len(taken) == gpus


def test_resources_come_and_go_without_a_restart_and_others_are_not_disturbed(kubelet: FakeKubelet) -> None:
    whole = devices(2)
    # What is empty is served for five seconds more.
    with RunningAgent(kubelet, advertised=whole, clock=HurriedClock()) as agent:
        first = list(kubelet.registered)
        parts = parts_of(cut(1, "1g.10gb", "1g.10gb"))
        agent.advertise((whole[0], *parts))
        agent.wait_registered()
        assert lists_of(kubelet) == {GPU: ["GPU-0"], SMALL: ["MIG-1-0", "MIG-1-1"]}
        agent.advertise(whole)
        eventually(lambda: lists_of(kubelet) == {GPU: ["GPU-0", "GPU-1"], SMALL: []})
        eventually(lambda: sockets(kubelet.plugins) == first, deadline=60)
        assert kubelet.registered[:1] == first, "whole GPUs were registered once"
        agent.advertise((whole[0], *parts))
        agent.wait_registered()
        assert kubelet.admit(asking(SMALL))
        assert len(kubelet.registered) == 3
        assert kubelet.refusals == []


def test_every_resource_is_registered_again_after_a_kubelet_restart(kubelet: FakeKubelet) -> None:
    advertised = (*devices(1), *parts_of(cut(1, "1g.10gb")))
    with RunningAgent(kubelet, advertised=advertised) as agent:
        for _ in range(2):
            kubelet.restart()
            agent.wait_registered()
        assert kubelet.refusals == []
        assert len(set(kubelet.registered)) == 6
        assert len(sockets(kubelet.plugins)) == 2


def test_a_resource_that_cannot_be_registered_is_reported_as_the_agent_s_problem(
    kubelet: FakeKubelet,
) -> None:
    with RunningAgent(kubelet, advertised=devices(1)) as agent:
        assert agent.registrar.problem is None
        kubelet.stop()
        agent.advertise((*devices(1), *parts_of(cut(1, "1g.10gb"))))
        eventually(lambda: not agent.registrar.is_registered and agent.registrar.problem)
        kubelet.start()
        agent.wait_registered()
        assert agent.registrar.problem is None


def test_a_registration_that_ends_by_itself_ends_the_agent() -> None:
    class Ending:
        """A registration whose thread has crashed."""

        is_registered = False
        problem = "It has crashed."

        def run(self, stop: threading.Event) -> None:
            del stop

    device_cache = DeviceCache()
    device_cache.put(AdvertisedDevices(devices(1), reported=True))
    resources = Registrations(device_cache, lambda _: Ending(), SystemClock())
    with pytest.raises(RegistrationEndedError, match=f"The registration of {GPU} has ended by itself"):
        resources.run(threading.Event())


def test_registrations_end_at_once_when_stopped() -> None:
    clock, stop = FakeClock(), threading.Event()

    def none(resource: str) -> NoReturn:
        raise AssertionError(f"there are no devices, but {resource} begins")

    resources = Registrations(DeviceCache(), none, clock)
    thread = threading.Thread(target=resources.run, args=(stop,), daemon=True)
    thread.start()
    clock.until_waiting()
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert clock.monotonic() == 0
