"""What Helm makes for GPUs by claims: rights of the node agent, its policy, classes, and what is refused."""

import pytest

from cluster import names
from devcluster.errors import ClusterError
from tests.charts.conftest import Render
from tests.charts.test_rendered import of_kind

pytestmark = pytest.mark.component

ON = {"dra": {"enabled": True}, "nodeAgent": {"devicePlugin": "dra"}}


def test_the_agent_may_write_slices_of_its_own_node_and_read_claims(render: Render) -> None:
    found = {(one["kind"], one["metadata"]["name"]): one for one in render(ON)}
    rules = found["ClusterRole", names.AGENT_CLAIMS_ROLE]["rules"]
    assert {(one["resources"][0], *one["verbs"]) for one in rules} == {
        ("resourceclaims", "get"),
        ("resourceslices", "list", "create", "patch", "delete"),
    }
    assert ("ValidatingAdmissionPolicyBinding", names.SLICES_POLICY) in found
    assert ("DeviceClass", names.DRA_DRIVER) in found


def test_without_claims_the_agent_has_no_rights_to_them(render: Render) -> None:
    assert names.AGENT_CLAIMS_ROLE not in {one["metadata"]["name"] for one in render({})}


def test_the_agent_sees_both_records_of_claims(render: Render) -> None:
    """Its own one always: a device that a claim still has is nobody else's. The kubelet's as a folder."""
    for values in (ON, {}):
        pod = of_kind(render(values), "DaemonSet")[names.NODE_AGENT]["spec"]["template"]["spec"]
        mounts = {one["mountPath"]: one for one in pod["containers"][0]["volumeMounts"]}
        assert mounts["/var/lib/kubelet/plugins"].get("readOnly", False) == (values != ON)
        given = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
        state = given.get(names.setting("kubelet_state"))
        assert (state in mounts) == (values == ON)


def test_nodes_of_claims_without_the_rights_for_it_are_refused(render: Render) -> None:
    with pytest.raises(ClusterError, match="set dra"):
        render({"nodeAgent": {"devicePlugin": "dra"}})
