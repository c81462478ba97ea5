"""Pods of many shapes: several GPUs or containers, init containers that lend, sidecars that keep."""

import pytest

from devcluster import probe
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e


def test_one_and_two_gpu_pods_share_the_nodes_and_agree_with_the_kubelet(playground: Playground) -> None:
    names = playground.create_all(
        probe.pod(f"mixed-{n}", [probe.container("main", gpus=1 + n % 2)]) for n in range(5)
    )
    playground.await_phase(names)
    for name in names:
        playground.check_agreement(name)
    playground.check_law_1()


def test_two_containers_of_one_pod_see_their_own_device_each(playground: Playground) -> None:
    name = playground.create(
        probe.pod("pair", [probe.container("left", gpus=1), probe.container("right", gpus=1)])
    )
    playground.await_phase([name])
    chosen = playground.assignment(name)
    assert not set(chosen["left"]) & set(chosen["right"])
    playground.check_agreement(name)


def test_an_app_container_takes_over_the_device_of_its_init_container(playground: Playground) -> None:
    name = playground.create(
        probe.pod(
            "lent", [probe.container("main", gpus=1)], init=[probe.container("setup", gpus=1, seconds=0)]
        )
    )
    playground.await_phase([name])
    chosen = playground.assignment(name)
    assert chosen["setup"] == chosen["main"]
    playground.check_agreement(name)


def test_an_init_container_with_more_devices_leaves_the_rest_with_the_pod(playground: Playground) -> None:
    name = playground.create(
        probe.pod(
            "wide", [probe.container("main", gpus=1)], init=[probe.container("setup", gpus=2, seconds=0)]
        )
    )
    playground.await_phase([name])
    chosen = playground.assignment(name)
    playground.check_sight(name, "setup", chosen["setup"])
    (got,) = playground.await_recorded(name, {"main"})["main"]
    assert got in chosen["setup"]


def test_a_sidecar_keeps_its_device_and_the_app_gets_another(playground: Playground) -> None:
    name = playground.create(
        probe.pod(
            "with-sidecar",
            [probe.container("main", gpus=1)],
            init=[probe.container("guard", gpus=1, sidecar=True)],
        )
    )
    playground.await_phase([name])
    chosen = playground.assignment(name)
    assert not set(chosen["guard"]) & set(chosen["main"])
    playground.check_agreement(name)


def test_many_pods_of_different_shapes_at_once_agree_with_the_kubelet(playground: Playground) -> None:
    setup = probe.container("setup", gpus=1, seconds=0)
    guard = probe.container("guard", gpus=1, sidecar=True)
    names = playground.create_all(
        [
            probe.pod("crowd-0", [probe.container("main", gpus=1)], init=[setup]),
            probe.pod("crowd-1", [probe.container("main", gpus=1)], init=[guard]),
            probe.pod("crowd-2", [probe.container("main", gpus=2)]),
            probe.pod("crowd-3", [probe.container("main")], init=[setup]),
            probe.pod("crowd-4", [probe.container("main", gpus=1)]),
            probe.pod("crowd-5", [probe.container("main", gpus=1)], init=[setup]),
        ]
    )
    playground.await_phase(names)
    for name in names:
        playground.check_agreement(name)
    playground.check_law_1()
