"""Shares on nodes whose GPUs another device plugin gives out: reservation pods open them and go again."""

from pathlib import Path
from typing import Any

import pytest

from cluster import dialect_names, names
from cluster.kube.resources import PODS
from cluster.objects.inventory import Sharing
from cluster.objects.pods import Pod
from cluster.objects.reservation_pods import reservation_name, reservation_of, visible_gpus
from demo.simulation.kubelet import real_gpu
from tests.fakes.objects import a100
from tests.scenarios.acts import gpus
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.world import World

MEMORY = 40_000
GPUS = {
    node: tuple(
        a100(n, node, uuid=f"{node}-{n}", numbered=True, share=Sharing(slots=16, memory=MEMORY))
        for n in range(2)
    )
    for node in ("n0", "n1")
}


def share(name: str, memory: int) -> dict[str, Any]:
    pod = a_pod(name)
    for kind in pod["spec"]["containers"][0]["resources"].values():
        kind[names.GPU_MEMORY] = str(memory)
    return pod


def world(folder: Path, **settings: Any) -> World:
    return World(folder, GPUS, sharing_reservation_image="pause", **settings)


def reservations(found: World) -> dict[str, Pod]:
    pods = found.pods(namespace=names.NAMESPACE)
    return {each.number: pod for pod in pods if (each := reservation_of(pod))}


def is_over(found: World) -> bool:
    return not reservations(found)


def test_where_the_kubelet_does_not_tell_the_gpu_its_nodes_agent_does(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        for name, kubelet in there.kubelets.items():
            kubelet.tells_devices = False
            there.agents[name].tells_real_gpus = True
        there.bob.create(share("bob-1", MEMORY // 2))
        there.until(lambda: runs(there, "bob-1"), "it has a share", within=50)
        (pod,) = reservations(there).values()
        gpu = pod.metadata.annotation(names.OPENED)
        assert gpu in there.kubelets[pod.spec.node_name or ""].holdings.of(pod.metadata.uid)
        there.bob.delete("bob-1")
        there.until(lambda: is_over(there), "the GPU is closed")


def test_a_gpu_is_opened_for_shares_and_closed_after_the_last(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        for name in ("bob-1", "bob-2"):
            there.bob.create(share(name, MEMORY // 2))
        there.until(lambda: runs(there, "bob-1", "bob-2"), "both share a GPU")
        ((number, pod),) = reservations(there).items()
        gpu = pod.metadata.annotation(names.OPENED)
        assert gpu == pod.metadata.annotation(dialect_names.KAI_RESERVED)
        assert gpu in {real_gpu(device) for device in GPUS[pod.spec.node_name or ""]}
        assert gpu != f"GPU-{number}", "the kubelet has chosen another one than its number says"
        for name in ("bob-1", "bob-2"):
            sharer = there.pod(name)
            assert sharer
            assert visible_gpus(sharer) == {gpu}
            assert sharer.spec.node_name == pod.spec.node_name
        there.bob.delete("bob-1")
        there.run(30)
        assert number in reservations(there)
        there.bob.delete("bob-2")
        there.until(lambda: is_over(there), "the GPU is closed")


def test_whole_gpus_are_given_beside_shares_and_never_the_same(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        there.bob.create(share("part", 1000))
        there.until(lambda: runs(there, "part"), "the share runs")
        for n in range(4):
            there.bob.create(a_pod(f"whole-{n}"))
        there.until(
            lambda: len(gpus(there)) == 5 and sum(gpus(there).values()) == 4, "three have a whole GPU"
        )
        there.run(20)
        assert sum(gpus(there).values()) == 4, "the fourth waits: the share has its GPU"
        there.bob.delete("part")
        there.until(lambda: sum(gpus(there).values()) == 4 and is_over(there), "the fourth has it")


def test_a_booking_takes_the_gpu_of_sharers_and_no_reservation_pod_is_evicted(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        there.bob.create(share("part", 1000))
        there.until(lambda: runs(there, "part"), "the share runs")
        for n in range(3):
            there.bob.create(a_pod(f"whole-{n}"))
        there.until(lambda: sum(gpus(there).values()) == 4, "all GPUs are taken")
        there.alice.book(4, topology="any")
        for n in range(4):
            there.alice.create(a_pod(f"alice-{n}"))
        there.until(lambda: runs(there, *(f"alice-{n}" for n in range(4))), "alice has all", within=120)
        there.until(lambda: is_over(there), "nobody reserves anything")


@pytest.mark.parametrize("victim", ["controller-0", "extender", "kubelet n0", "agent n0", "scheduler"])
def test_no_reservation_stays_whoever_dies(tmp_path: Path, victim: str) -> None:
    with world(tmp_path) as there:
        for delay in (0.05, 0.3, 1.0, 3.0):
            for n in range(3):
                there.bob.create(share(f"bob-{n}", MEMORY // 2))
            there.run(delay)
            there.kill(victim)
            there.until(lambda: runs(there, "bob-0", "bob-1", "bob-2"), "all run", within=120)
            there.until(
                lambda: len(reservations(there)) == 2, "no more GPUs than needed are open", within=120
            )
            for n in range(3):
                there.bob.delete(f"bob-{n}")
            there.run(delay + 5)
            there.kill(victim)
            there.until(lambda: is_over(there), "the GPUs are closed", within=120)


def test_pods_whose_reservation_is_removed_by_force_keep_their_gpu_or_come_back(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        there.bob.create(share("part", 1000))
        there.until(lambda: runs(there, "part"), "the share runs")
        (number,) = reservations(there)
        before = there.pod("part")
        assert before
        there.laws.fault("the reservation pod is removed")
        there.kube.delete(PODS, reservation_name(number), namespace=names.NAMESPACE, grace_seconds=0)
        there.until(lambda: number in reservations(there), "there is another one")
        there.run(30)
        assert runs(there, "part")
        assert visible_gpus(there.pod("part") or before) == {
            reservations(there)[number].metadata.annotation(names.OPENED)
        }
