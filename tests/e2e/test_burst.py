"""Sixteen pods for eight devices: eight run, eight wait, none fails, and everybody says the same."""

import pytest

from devcluster import probe
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

DEVICES = 8


def test_a_burst_of_sixteen_pods_fills_eight_devices_and_no_pod_fails(playground: Playground) -> None:
    names = playground.create_all(
        probe.pod(f"burst-{n:02}", [probe.container("main", gpus=1)]) for n in range(2 * DEVICES)
    )
    bound = playground.await_that(
        "eight pods run", lambda: running if len(running := _running(playground)) == DEVICES else None
    )
    waiting = sorted(set(names) - set(bound))
    for name in waiting:
        assert "nodes are available" in playground.await_waiting(name)
    for name in bound:
        playground.check_agreement(name)
    playground.check_law_1()
    assert len({u for n in bound for us in playground.assignment(n).values() for u in us}) == DEVICES
    assert not [p.metadata.name for p in playground.pods() if p.status.phase == "Failed"]

    for name in bound:
        playground.delete(name)
    playground.await_phase(waiting)
    for name in waiting:
        playground.check_agreement(name)
    playground.check_law_1()


def test_five_pods_want_four_a100s_and_the_fifth_gets_the_one_that_is_freed(playground: Playground) -> None:
    names = [playground.simple(f"a100-{n}", model="NVIDIA A100-SXM4-80GB") for n in range(4)]
    playground.await_phase(names)
    fifth = playground.simple("a100-4", model="NVIDIA-A100-SXM4-80GB")
    assert "A100" in playground.await_waiting(fifth)
    freed = playground.assignment(names[2])
    playground.delete(names[2])
    playground.await_phase([fifth])
    assert playground.assignment(fifth) == freed
    playground.check_agreement(fifth)


def test_a_list_of_models_takes_whichever_is_free(playground: Playground) -> None:
    wish = "NVIDIA A100-SXM4-80GB, NVIDIA RTX A6000"
    names = [playground.simple(f"either-{n}", model=wish) for n in range(DEVICES)]
    playground.await_phase(names)
    models = {playground.inventory()[u][1].model for n in names for u in playground.assignment(n)["main"]}
    assert models == {"NVIDIA-A100-SXM4-80GB", "NVIDIA-RTX-A6000"}
    playground.check_law_1()


def _running(playground: Playground) -> list[str]:
    return sorted(p.metadata.name for p in playground.pods() if p.status.phase == "Running")
