"""What Helm makes for MPS, for a library of the administrator's, and for pods that use too much."""

import json

import pytest

from cluster import names
from tests.charts.conftest import Render
from tests.charts.test_rendered import of_kind
from tests.charts.test_reservations_rendered import environment

pytestmark = pytest.mark.component

NAME = f"{names.PRODUCT}-mps"
HOOK = {"mounts": {"/lib/x.so": "/opt/x.so"}, "environment": {"LIMIT": "{memory}m"}}
ON = {"sharing": {"mps": {"enabled": True, "image": "own/cuda:1"}, "hook": HOOK, "overuse": "evict"}}


def test_daemons_are_pods_of_their_own_that_nothing_replaces_and_that_meet_the_agent_in_one_folder(
    render: Render,
) -> None:
    sets = of_kind(render(ON), "DaemonSet")
    assert sets[NAME]["spec"]["updateStrategy"] == {"type": "OnDelete"}
    template = sets[NAME]["spec"]["template"]
    folders = {
        volume["hostPath"]["path"]
        for one in (NAME, names.NODE_AGENT)
        for volume in sets[one]["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "mps"
    }
    (folder,) = folders
    (container,) = template["spec"]["containers"]
    assert container["image"] == "own/cuda:1"
    assert {"name": "MPS_ROOT", "value": folder} in container["env"]
    agent = environment(render(ON), "DaemonSet", names.NODE_AGENT)
    assert agent[names.setting("mps_root")] == folder


def test_they_have_no_right_and_are_not_there_by_default(render: Render) -> None:
    off, on = render({}), render(ON)
    assert NAME not in of_kind(off, "DaemonSet")
    assert names.setting("mps_root") not in environment(off, "DaemonSet", names.NODE_AGENT)
    for kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"):
        assert of_kind(on, kind) == of_kind(off, kind)


def test_the_settings_of_shares_reach_those_who_need_them(render: Render) -> None:
    documents = render(ON)
    agent = environment(documents, "DaemonSet", names.NODE_AGENT)
    assert json.loads(agent[names.setting("sharing_hook")] or "") == HOOK
    for part in (names.CONTROLLER, names.BOOKING_SERVER):
        assert environment(documents, "Deployment", part)[names.setting("sharing_overuse")] == "evict"


def test_agents_may_write_status_only_where_gpushare_s_users_look_at_it(render: Render) -> None:
    on = {"sharing": {"gpushareNodeStatus": True, "gpushareUnit": "MiB"}}
    for values, unit in (({}, "none"), (on, "MiB")):
        documents = render(values)
        agent = environment(documents, "DaemonSet", names.NODE_AGENT)
        assert agent.get(names.setting("sharing_gpushare_status")) == unit
        rules = of_kind(documents, "ClusterRole")[names.NODE_AGENT]["rules"]
        assert any("nodes/status" in rule["resources"] for rule in rules) is (unit == "MiB")
