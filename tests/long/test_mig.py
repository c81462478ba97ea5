"""MIG devices on a real kubelet: by their own names, by CDI with the nodes that give access, and live."""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster import names
from cluster.objects.assignment import drift_of
from devcluster import probe
from devcluster.fakenvml import A100_80GB, RTX_A6000, MigSpec, capabilities, default_gpus, mig
from devcluster.probe import Sight
from devcluster.product import Parts
from tests.e2e.playground import HOSTNAME, Playground

pytestmark = pytest.mark.e2e

NODE, NUMBER = "node-b", 1
GPUS = 4
MODELS = f"{A100_80GB.name},{RTX_A6000.name}"
SMALL, LARGE = (f"{names.MIG_RESOURCE_PREFIX}{profile}" for profile in ("1g.10gb", "3g.40gb"))


@pytest.fixture
def pieces(parts: Parts, playground: Playground) -> Iterator[tuple[MigSpec, ...]]:
    """The first GPU of the node is cut; it is whole again at the end."""
    made = mig(default_gpus(NUMBER)[0], ["1g.10gb", "3g.40gb", "1g.10gb"])
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    parts.fake_nvml(NODE).mig(0, made)
    parts.start_agent(NODE, name="agent-mixed", settings={names.setting("mig_strategy"): "mixed"})
    playground.await_gpus(NODE, GPUS - 1)
    await_parts(playground, SMALL, 2)
    yield made
    parts.fake_nvml(NODE).mig(0, ())


def await_parts(playground: Playground, resource: str, number: int) -> None:
    def allocatable() -> bool:
        return int((playground.node(NODE).status.allocatable or {}).get(resource, 0)) == number

    playground.await_that(f"{NODE} advertises {number} of {resource}", lambda: allocatable() or None)


def asking(playground: Playground, name: str, resource: str) -> str:
    container: dict[str, Any] = probe.container("main") | {"resources": {"limits": {resource: "1"}}}
    return playground.create(probe.pod(name, [container], extra={"nodeSelector": {HOSTNAME: NODE}}))


def sight(playground: Playground, name: str) -> Sight:
    seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
    assert seen is not None
    return seen


def access(piece: MigSpec) -> set[str]:
    numbers = capabilities.number(0, piece.gi), capabilities.number(0, piece.gi, piece.ci)
    return {f"/dev/{capabilities.FOLDER}/nvidia-cap{number}" for number in numbers}


def test_a_pod_gets_one_mig_device_by_its_name_and_sees_no_other(
    parts: Parts, playground: Playground, pieces: tuple[MigSpec, ...]
) -> None:
    by_uuid = {piece.uuid: piece for piece in pieces}
    wanted = {"small-1": SMALL, "small-2": SMALL, "large": LARGE}
    for name, resource in wanted.items():
        asking(playground, name, resource)
    playground.await_phase(list(wanted))
    given: dict[str, str] = {}
    for name, resource in wanted.items():
        seen = sight(playground, name)
        (given[name],) = seen.uuids
        piece = by_uuid[given[name]]
        assert resource == names.MIG_RESOURCE_PREFIX + piece.profile
        caps = {node.path for node in seen.devices if capabilities.FOLDER in node.path}
        assert (seen.gpu_minors, caps) == ((0,), access(piece))
    assert set(given.values()) == set(by_uuid), "each has one of its own"
    playground.check_law_1()
    uids = {playground.pod(name).metadata.uid: {"main": (uuid,)} for name, uuid in given.items()}
    playground.await_that(
        "the Node says who has which", lambda: drift_of(playground.node(NODE)) == uids or None
    )

    # What the driver does while nobody uses MIG devices: the GPU is whole, its parts are gone.
    parts.fake_nvml(NODE).mig(0, ())
    await_parts(playground, SMALL, 0)
    playground.await_gpus(NODE, GPUS - 1)
    assert all(playground.pod(name).status.phase == "Running" for name in wanted)
    playground.clear()
    playground.await_gpus(NODE, GPUS)
    assert not {uuid for uuid in playground.inventory() if uuid in by_uuid}
    playground.simple("whole", gpus=GPUS, node=NODE, model=MODELS)
    playground.await_phase(["whole"])
    playground.check_law_1()
