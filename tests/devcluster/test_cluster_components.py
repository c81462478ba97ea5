"""Command lines and configurations of the daemons."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from devcluster.addresses import Addresses
from devcluster.components import apiserver, cni, containerd, controller_manager, kubelet, proxy, scheduler
from devcluster.paths import Paths
from devcluster.plan import Plan, Programs
from devcluster.spec import ClusterSpec, NodeSpec

PROGRAMS = Programs(
    {name: f"/programs/{name}" for name in ("kubebox", "kubebox-1.34", "runc", "bridge", "containerd", "ctr")}
)


def plan(tmp_path: Path, *, cgroup_version: int = 1, **spec: Any) -> Plan:
    paths = Paths("trial", tmp_path)
    paths.pki.mkdir(parents=True)
    return Plan(ClusterSpec(name="trial", **spec), paths, Addresses(2), PROGRAMS, cgroup_version)


def test_the_scheduler_has_a_fast_client_unless_the_caller_says_otherwise(tmp_path: Path) -> None:
    client = json.loads(scheduler.configuration(plan(tmp_path)))["clientConnection"]

    assert (client["qps"], client["burst"]) == (1000, 2000)
    assert client["kubeconfig"] == str(tmp_path / "trial" / "configuration" / "kube-scheduler.kubeconfig")


def test_the_schedulers_profile_is_the_callers(tmp_path: Path) -> None:
    wanted = {
        "profiles": [{"schedulerName": "gpu-booking"}],
        "extenders": [{"urlPrefix": "http://127.0.0.1:9999", "filterVerb": "filter"}],
        "clientConnection": {"qps": 50},
    }

    written = json.loads(scheduler.configuration(plan(tmp_path, scheduler=wanted)))

    assert written["profiles"] == wanted["profiles"]
    assert written["extenders"] == wanted["extenders"]
    assert written["clientConnection"]["qps"] == 50
    assert written["clientConnection"]["burst"] == 2000
    assert written["kind"] == "KubeSchedulerConfiguration"
    assert written["leaderElection"] == {"leaderElect": False}


@pytest.mark.parametrize(("version", "allows"), [(1, False), (2, None)])
def test_the_kubelet_accepts_cgroup_version_1_only_on_a_host_with_it(
    tmp_path: Path, version: int, *, allows: bool | None
) -> None:
    node = plan(tmp_path, cgroup_version=version).nodes[0]

    assert json.loads(kubelet.configuration(node)).get("failCgroupV1") is allows


def test_kubelets_share_no_port_and_no_control_group(tmp_path: Path) -> None:
    written = [json.loads(kubelet.configuration(node)) for node in plan(tmp_path).nodes]

    ports = [config[key] for config in written for key in ("port", "healthzPort")]
    assert len(set(ports)) == len(ports)
    assert [config["cgroupRoot"] for config in written] == [
        f"/{Paths('trial', tmp_path).mark}.node-a",
        f"/{Paths('trial', tmp_path).mark}.node-b",
    ]


def test_a_kubelet_renews_its_lease_four_times_before_it_is_missed(tmp_path: Path) -> None:
    lease = json.loads(kubelet.configuration(plan(tmp_path).nodes[0]))["nodeLeaseDurationSeconds"]
    (grace,) = (
        word.rpartition("=")[2]
        for word in controller_manager.command(plan(tmp_path / "another"))
        if word.startswith("--node-monitor-grace-period")
    )
    # A kubelet renews its Lease after a quarter of the duration.
    assert (lease, grace) == (16, "16s")


def test_no_daemon_elects_a_leader(tmp_path: Path) -> None:
    assert "--leader-elect=false" in controller_manager.command(plan(tmp_path))
    written = json.loads(scheduler.configuration(plan(tmp_path / "another")))
    assert written["leaderElection"] == {"leaderElect": False}


def test_a_kubelet_is_given_the_address_and_labels_of_its_node(tmp_path: Path) -> None:
    node = plan(tmp_path, nodes=(NodeSpec(name="node-a", labels={"b": "2", "a": "1"}),)).nodes[0]

    command = kubelet.command(node)

    assert command[:2] == ["/programs/kubebox", "kubelet"]
    assert f"--node-ip={Addresses(2).node(0)}" in command
    assert "--node-labels=a=1,b=2" in command


def test_containerd_reads_a_valid_configuration_with_cdi_private_to_the_node(tmp_path: Path) -> None:
    node = plan(tmp_path).nodes[1]

    runtime = tomllib.loads(containerd.configuration(node))["plugins"]["io.containerd.cri.v1.runtime"]

    assert runtime["cdi_spec_dirs"] == ["/var/run/cdi"]
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["cni"]["conf_dir"] == str(node.folder / "cni" / "configuration")


def test_the_pods_of_each_node_get_addresses_from_a_bridge_of_its_own(tmp_path: Path) -> None:
    first, second = (json.loads(cni.configuration(node))["plugins"][0] for node in plan(tmp_path).nodes)

    assert first["bridge"] != second["bridge"]
    assert first["ipam"]["ranges"] != second["ipam"]["ranges"]
    assert first["ipam"]["dataDir"] != second["ipam"]["dataDir"]


def test_arguments_of_the_caller_for_the_api_server_come_last(tmp_path: Path) -> None:
    assert apiserver.command(plan(tmp_path, apiserver_arguments=("--v=4",)))[-1] == "--v=4"


def test_node_ports_answer_on_every_node(tmp_path: Path) -> None:
    assert json.loads(proxy.configuration(plan(tmp_path)))["nodePortAddresses"] == [str(Addresses(2).network)]


def test_what_passes_for_an_older_version_has_the_argument_and_its_kubelets_lack_what_that_version_lacks(
    tmp_path: Path,
) -> None:
    nodes = (NodeSpec(name="node-a"), NodeSpec(name="node-b", kubernetes="1.34"))
    emulated = plan(tmp_path, emulates="1.35", nodes=nodes)
    for program in (apiserver, controller_manager, scheduler):
        assert "--emulated-version=kube=1.35" in program.command(emulated)
    newest, older = emulated.nodes
    assert json.loads(kubelet.configuration(newest))["featureGates"] == {"PodsAPI": False}
    assert "featureGates" not in json.loads(kubelet.configuration(older))
    assert kubelet.command(older)[0] == "/programs/kubebox-1.34"
