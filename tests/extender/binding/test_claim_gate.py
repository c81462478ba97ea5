"""A pod is bound only if the devices of its claims are known, and are its own (law L1)."""

from typing import Any

import msgspec
import pytest

from cluster import claim_names, names
from cluster.cache import ClaimOptions
from cluster.fake import FakeClock, FakeKube
from cluster.kube.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS
from cluster.objects.inventory import encode_inventory
from cluster.objects.pods import Pod
from extender.binding.bind_decision import BindError, NotNowError
from extender.binding.claim_gate import ClaimGate
from extender.state.cluster_state import ClusterState
from tests.fakes.objects import a100

DEVICE = msgspec.structs.replace(a100(0, "n0"), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0")
WHERE = {"namespace": "team"}


class Gate:
    """The gate, with a pod whose claim kube-scheduler has just given gpu-0 of n0."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.kube = FakeKube(clock)
        self.state = ClusterState(clock, claims=ClaimOptions())
        selectors = [{"cel": {"expression": f"device.driver == '{names.DRA_DRIVER}'"}}]
        self.kube.put(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
        self.state.of(DEVICE_CLASSES).upsert(self.kube.get(DEVICE_CLASSES, "gpu"))
        self.allocate("mine")
        self.publish(DEVICE)
        reference = {"name": "g", "resourceClaimName": "mine"}
        spec: dict[str, Any] = {"containers": [], "resourceClaims": [reference]}
        self.pod: Pod = self.kube.put(PODS, {"metadata": {"name": "p", **WHERE}, "spec": spec})

    def publish(self, *devices: Any) -> None:
        notes = {names.INVENTORY: encode_inventory(devices)}
        node = self.kube.put(NODES, {"metadata": {"name": "n0", "annotations": notes}})
        self.state.of(NODES).upsert(node)

    def allocate(self, name: str, *, reserved_for: str | None = None) -> None:
        """A claim has the device; only the API server knows that yet."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        results = [{"driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}]
        users = [{"resource": "pods", "name": reserved_for, "uid": reserved_for}] if reserved_for else []
        self.kube.put(
            RESOURCE_CLAIMS,
            {
                "metadata": {"name": name, **WHERE},
                "spec": {"devices": {"requests": [request]}},
                "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users},
            },
        )

    def learn(self, name: str) -> None:
        """The event of a claim arrives."""
        self.state.of(RESOURCE_CLAIMS).upsert(self.kube.get(RESOURCE_CLAIMS, name, namespace="team"))

    def passed(self, node: str = "n0") -> Pod:
        return ClaimGate(self.kube, self.state).passed(self.pod, node, within=1.0)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def test_a_pod_passes_with_what_its_claim_has_by_now(gate: Gate) -> None:
    claims = gate.passed().claims
    assert claims is not None
    assert [one.device for one in claims.held] == ["gpu-0"]


def test_a_pod_whose_device_the_node_does_not_name_waits(gate: Gate) -> None:
    """Nobody could say who else has it (law L6)."""
    gate.publish()
    with pytest.raises(NotNowError, match="has not said"):
        gate.passed()


def test_a_pod_whose_device_another_claim_has_is_refused(gate: Gate) -> None:
    gate.allocate("another", reserved_for="q")
    gate.learn("another")
    with pytest.raises(BindError, match="Another claim has"):
        gate.passed()


def test_pods_whose_claims_wait_with_one_device_do_not_wait_for_each_other(gate: Gate) -> None:
    gate.allocate("another")
    gate.learn("another")
    assert gate.passed().claims


def test_a_claim_whose_pod_is_about_to_be_bound_is_seen_before_its_event_comes(gate: Gate) -> None:
    gate.allocate("another")
    gate.learn("another")
    gate.allocate("another", reserved_for="q")
    with pytest.raises(BindError, match="Another claim has"):
        gate.passed()


def test_a_pod_whose_claim_is_gone_or_has_devices_elsewhere_is_refused(gate: Gate) -> None:
    with pytest.raises(NotNowError, match="no devices of node n1"):
        gate.passed("n1")
    gate.kube.delete(RESOURCE_CLAIMS, "mine", namespace="team")
    with pytest.raises(BindError, match="is gone"):
        gate.passed()


def test_the_claim_for_an_extended_resource_passes_the_gate_like_others(gate: Gate) -> None:
    """kube-scheduler has made it just now, and its pod's status names it."""
    limits = {"limits": {f"{claim_names.CLASS_RESOURCE_PREFIX}gpu": "1"}}
    spec = {"containers": [{"name": "main", "resources": limits}]}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "mine"}}
    asks = gate.kube.put(PODS, {"metadata": {"name": "r", **WHERE}, "spec": spec})
    gate.pod = asks
    with pytest.raises(NotNowError, match="no devices"):
        gate.passed()
    gate.pod = gate.kube.put(PODS, {"metadata": {"name": "r", **WHERE}, "spec": spec, "status": status})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "r", "uid": gate.pod.metadata.uid}
    gate.kube.patch(RESOURCE_CLAIMS, "mine", {"metadata": {"ownerReferences": [owner]}}, namespace="team")
    claims = gate.passed().claims
    assert claims is not None
    assert claims.node == "n0"
