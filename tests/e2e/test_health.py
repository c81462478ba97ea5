"""A GPU that reports a critical XID is taken out of use, and comes back when it is well again."""

import pytest

from devcluster.parts import Parts
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-b"
GPUS = 4


def test_a_gpu_with_a_critical_xid_gets_no_pod_until_it_is_well(parts: Parts, playground: Playground) -> None:
    sick = parts.fake_nvml(NODE).uuids()[0]
    parts.fake_nvml(NODE).xid(sick, 79)
    playground.await_gpus(NODE, GPUS - 1)
    published = playground.await_that(
        "the inventory says why", lambda: playground.inventory()[sick][1].reason
    )
    assert "79" in published
    assert playground.inventory().keys() >= set(parts.fake_nvml(NODE).uuids())

    names = [playground.simple(f"pod-{n}", node=NODE) for n in range(GPUS)]
    served = playground.await_that(
        "three pods run",
        lambda: (
            found
            if len(found := [p.metadata.name for p in playground.pods() if p.status.phase == "Running"]) == 3
            else None
        ),
    )
    assert sick not in {u for n in served for u in playground.assignment(n)["main"]}

    playground.await_gpus(NODE, GPUS)
    playground.await_phase(names)
    playground.check_law_1()


def test_an_application_error_leaves_the_gpu_in_use(parts: Parts, playground: Playground) -> None:
    fake = parts.fake_nvml(NODE)
    fake.xid(0, 31)
    fake.xid(1, 79)
    playground.await_gpus(NODE, GPUS - 1)
    assert playground.inventory()[fake.uuids()[0]][1].is_healthy
    playground.await_gpus(NODE, GPUS)


def test_a_lost_gpu_does_not_take_its_neighbours_along(parts: Parts, playground: Playground) -> None:
    fake = parts.fake_nvml(NODE)
    lost = fake.uuids()[1]
    fake.lose(1)
    playground.await_gpus(NODE, GPUS - 1)
    names = [playground.simple(f"pod-{n}", node=NODE) for n in range(GPUS - 1)]
    playground.await_phase(names)
    assert lost not in {u for n in names for u in playground.assignment(n)["main"]}
    fake.recover(1)
    playground.await_gpus(NODE, GPUS)
