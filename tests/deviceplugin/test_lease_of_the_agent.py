"""The agent's Lease as the composition root wires it: it means *serving*, and its Node owns it (ADR 58)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.interface import Selection
from cluster.kube.node_lease import LeaseRenewer
from cluster.kube.resources import LEASES, NODES
from cluster.objects.nodes import Lease
from cluster.process.settings import load
from deviceplugin import __main__ as agent
from deviceplugin.beside.owner import Way
from deviceplugin.beside.role import Role
from deviceplugin.device_cache import DeviceCache
from deviceplugin.settings import Settings


@dataclass
class Served:
    """Whether the kubelet has the devices, and why its pods cannot be read."""

    is_registered: bool = False
    problem: str | None = None


class NothingBeside:
    """A monitor without a report on the GPUs' usage."""

    def annotations(self) -> Mapping[str, str | None]:
        """Nothing."""
        return {}


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube(FakeClock())
    made.put(NODES, {"metadata": {"name": "n0", "uid": "uid-n0"}, "spec": {}, "status": {}})
    return made


def renewer(kube: FakeKube, served: Served) -> LeaseRenewer:
    return agent._lease(
        load(Settings, {"GPU_BOOKING_NODE_NAME": "n0"}),
        kube,
        FakeClock(),
        role=Role(
            way=Way("ours"),
            devices=cast("Any", None),
            registered=served,
            shown=DeviceCache(),
            compared_pods=tuple,
            pods_problem=lambda: served.problem,
        ),
        monitor=cast("Any", NothingBeside()),
        holder="agent-1",
    )


def leases(kube: FakeKube) -> list[Lease]:
    return kube.list(LEASES, Selection(namespace=names.NAMESPACE)).items


def test_the_lease_depends_on_the_registration_with_the_kubelet_and_on_its_pods(kube: FakeKube) -> None:
    served = Served()
    lease = renewer(kube, served)
    assert not lease._serves()
    served.is_registered = True
    assert lease._serves()
    served.problem = "The pods cannot be read."
    assert not lease._serves()


def test_the_lease_is_owned_by_its_node(kube: FakeKube) -> None:
    renewer(kube, Served(is_registered=True)).renew()
    (lease,) = leases(kube)
    assert lease.metadata.name == names.node_lease("n0")
    assert [owner.uid for owner in lease.metadata.owner_references or ()] == ["uid-n0"]
