"""Nodes and Leases are read as an API server writes them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cluster import names
from cluster.objects.nodes import Lease, LeaseSpec, Node, Taint
from cluster.objects.pods import Condition
from tests.fakes.objects import EPOCH


def test_a_node_is_read_with_everything_that_bars_pods_from_it() -> None:
    node = msgspec.convert(
        {
            "metadata": {"name": "n0"},
            "spec": {
                "podCIDR": "10.0.0.0/24",
                "unschedulable": True,
                "taints": [
                    {"key": names.GPU_RESOURCE, "value": "present", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "x"},
                ],
            },
            "status": {
                "capacity": {"cpu": "8", "pods": 110},
                "allocatable": {names.GPU_RESOURCE: "4"},
                "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}],
                "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.37.0"},
            },
        },
        Node,
    )
    assert node.spec.unschedulable is True
    assert node.spec.taints == (
        Taint(key=names.GPU_RESOURCE, value="present", effect="NoSchedule"),
        Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"),
    )
    assert node.status.capacity == {"cpu": "8", "pods": 110}
    assert node.status.allocatable == {names.GPU_RESOURCE: "4"}
    assert node.status.conditions == (Condition(type="Ready", status="Unknown", reason="NodeStatusUnknown"),)
    assert node.status.node_info.container_runtime_version == "containerd://2.1.4"


def test_a_node_that_has_just_registered_has_empty_values() -> None:
    node = msgspec.convert({"metadata": {"name": "n0"}}, Node)
    assert (node.spec.unschedulable, node.spec.taints, node.status.allocatable) == (None, None, None)
    assert node.status.node_info.container_runtime_version == ""


def test_a_lease_is_read_with_its_holder_and_to_the_microsecond() -> None:
    lease = msgspec.convert(
        {
            "metadata": {"name": names.node_lease("n0"), "namespace": names.NAMESPACE},
            "spec": {
                "holderIdentity": "n0_4711",
                "leaseDurationSeconds": 40,
                "acquireTime": "2026-11-23T09:00:00.000000Z",
                "renewTime": "2026-11-23T09:00:10.000001Z",
                "leaseTransitions": 3,
            },
        },
        Lease,
    )
    assert lease.spec == LeaseSpec(
        holder_identity="n0_4711",
        lease_duration_seconds=40,
        acquire_time=EPOCH,
        renew_time=EPOCH + timedelta(seconds=10, microseconds=1),
        lease_transitions=3,
    )


@pytest.mark.parametrize(
    "text", ["2026-11-23T09:00:00Z", "2026-11-23T10:00:00+01:00", "2026-11-23T09:00:00.000000000Z"]
)
def test_a_renewal_is_the_same_instant_in_whatever_zone_it_is_written(text: str) -> None:
    lease = msgspec.convert({"spec": {"renewTime": text}}, Lease)
    assert lease.spec.renew_time == datetime(2026, 11, 23, 9, tzinfo=UTC)


@pytest.mark.parametrize("spec", [{}, {"renewTime": None, "holderIdentity": None}])
def test_a_lease_that_was_never_renewed_has_no_instant(spec: dict[str, None]) -> None:
    assert msgspec.convert({"spec": spec}, Lease).spec == LeaseSpec()
