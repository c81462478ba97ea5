"""The chart's policies on a real API server: whose devices an agent publishes, and who allocates claims."""

from typing import Final

import pytest

from cluster import names
from tests.long.controlplane.policies.policed import HOME, Json, People, Somebody, a_pod, is_denied, pods

pytestmark = pytest.mark.controlplane

SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
ONLY_OWN: Final = "of its own node and its own driver only"


def a_slice(node: str, *, driver: str = names.DRA_DRIVER, pool_of: str = "") -> Json:
    pool = {"name": pool_of or node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return {"metadata": {"name": f"{node}-{driver}"}, "spec": spec}


def test_a_node_agent_publishes_devices_of_its_own_node_and_driver(
    people: People, agent: Somebody, other_node: str
) -> None:
    assert other_node.endswith("node-b")
    assert agent.create(SLICES, a_slice("node-a")).status == 201
    assert is_denied(agent.create(SLICES, a_slice("node-b")), ONLY_OWN)
    assert is_denied(agent.create(SLICES, a_slice("node-a", driver="nic.example.com")), ONLY_OWN)
    assert is_denied(agent.create(SLICES, a_slice("node-a", pool_of="node-b")), ONLY_OWN)
    everywhere = a_slice("node-a")
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    assert is_denied(agent.create(SLICES, everywhere), ONLY_OWN)
    assert people.root.create(SLICES, a_slice("node-b")).status == 201
    theirs = f"{SLICES}/{a_slice('node-b')['metadata']['name']}"
    assert is_denied(agent.patch(theirs, {"spec": {"devices": []}}), ONLY_OWN)
    assert is_denied(agent.delete(theirs), ONLY_OWN)
    assert agent.delete(f"{SLICES}/{a_slice('node-a')['metadata']['name']}").status == 200


def test_the_controller_takes_devices_that_a_claim_has_for_nobody_and_gives_none(people: People) -> None:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    result = {"request": "gpu", "driver": names.DRA_DRIVER, "pool": "node-a", "device": "gpu-0"}
    given = {"allocation": {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}}
    reserved = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    claims = f"/apis/resource.k8s.io/v1/namespaces/{HOME}/resourceclaims"
    assert people.root.create(claims, {"metadata": {"name": "c"}, "spec": spec}).status == 201
    status = f"{claims}/c/status"
    only = "and does nothing else to claims"
    assert is_denied(people.controller.patch(status, {"status": given}), only)
    assert people.root.patch(status, {"status": given | reserved}).status == 200
    assert is_denied(
        people.controller.patch(status, {"status": {"allocation": None, "reservedFor": None}}), only
    )
    assert people.root.patch(status, {"status": {"reservedFor": None}}).status == 200
    taken = people.controller.patch(status, {"status": {"allocation": None}})
    assert taken.status == 200
    assert "allocation" not in taken.body.get("status", {})


@pytest.mark.parametrize(
    ("spec", "why"),
    [({"schedulerName": "mine"}, "only scheduler"), ({"nodeName": "node-a"}, "names its node")],
)
def test_no_pod_with_claims_comes_past_our_scheduler(people: People, spec: Json, why: str) -> None:
    """The webhook would set its scheduler; here it is one that knows nothing of claims."""
    claims = [{"name": "gpu", "resourceClaimName": "of-mine"}]
    ours = {"schedulerName": names.SCHEDULER_NAME, "resourceClaims": claims}
    assert people.alice.create(pods(), a_pod(spec=ours), dry=True).status == 201
    assert is_denied(people.alice.create(pods(), a_pod(spec=ours | spec), dry=True), why)
