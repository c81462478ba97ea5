"""Devices reach a container by CDI (all other tests), by environment, or as device nodes: a setting."""

import pytest

from cluster import names
from devcluster import probe
from devcluster.product import Parts
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-b"
GPUS = 4


def use(parts: Parts, playground: Playground, strategy: str) -> None:
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    parts.start_agent(NODE, name=f"agent-{strategy}", settings={"GPU_BOOKING_DEVICE_LIST_STRATEGY": strategy})
    playground.await_gpus(NODE, GPUS)


def test_device_nodes_are_handed_over_one_by_one(parts: Parts, playground: Playground) -> None:
    use(parts, playground, "device-nodes")
    names_ = [playground.simple(f"pod-{n}", gpus=2, node=NODE) for n in range(2)]
    playground.await_phase(names_)
    for name in names_:
        playground.check_agreement(name)
    playground.check_law_1()


def test_the_environment_names_the_devices_for_the_container_runtime(
    parts: Parts, playground: Playground
) -> None:
    use(parts, playground, "environment")
    name = playground.simple("pod", node=NODE)
    playground.await_phase([name])
    (uuid,) = playground.assignment(name)["main"]
    seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
    assert seen is not None
    assert seen.env[names.VISIBLE_DEVICES_VARIABLE] == uuid
    assert seen.uuids == (uuid,)


def test_with_cdi_a_pod_cannot_override_what_it_sees(playground: Playground) -> None:
    container = probe.container("main", gpus=1)
    container["env"] = [{"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"}]
    name = playground.create(probe.pod("greedy", [container]))
    playground.await_phase([name])
    seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
    assert seen is not None
    assert seen.env[names.VISIBLE_DEVICES_VARIABLE] == "void"
    playground.check_agreement(name)
