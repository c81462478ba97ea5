"""A real cluster whose daemons and nodes are killed, paused and started again."""

import json
import stat
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.kube.resources import NODES
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.errors import ClusterError
from devcluster.fakenvml import FakeNvml
from devcluster.spec import CONTROL_PLANE, ClusterSpec
from devcluster.wait import poll
from tests.clusters import own
from tests.e2e.playground import PATIENCE, UNANSWERED

pytestmark = pytest.mark.e2e

NAME = own("faults")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=NAME)) as running:
        yield running


def is_ready(cluster: Cluster, node: str) -> bool:
    try:
        conditions = administrator(cluster).get(NODES, node).status.conditions or ()
    except UNANSWERED:
        return False  # the API server is the one that is down
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def assert_gets_ready(cluster: Cluster, node: str) -> None:
    assert poll(lambda: is_ready(cluster, node), seconds=PATIENCE), f"{node} does not get Ready"


def assert_stops_being_ready(cluster: Cluster, node: str) -> None:
    assert poll(lambda: not is_ready(cluster, node), seconds=PATIENCE), f"{node} stays Ready"


def run_pod(cluster: Cluster, name: str, node: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "c", "image": "localhost/gpu-booking/probe:1", "imagePullPolicy": "Never"}
            ],
        },
    }
    cluster.kubectl("apply", "-f", "-", given=json.dumps(pod))
    cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={PATIENCE:.0f}s")


def container(cluster: Cluster, pod: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.kubectl("get", "pod", pod, "-o", "json"))
    status: dict[str, Any] = found["status"]["containerStatuses"][0]
    return status


def test_a_killed_kubelet_leaves_its_node_not_ready_until_it_is_started_again(cluster: Cluster) -> None:
    cluster.kill("node-a/kubelet")
    assert cluster.daemon("node-a/kubelet").exited == -9
    assert_stops_being_ready(cluster, "node-a")
    assert is_ready(cluster, "node-b")

    cluster.restart("node-a/kubelet")

    assert_gets_ready(cluster, "node-a")


def test_a_kubelet_that_finds_no_containerd_is_started_again_until_it_does(cluster: Cluster) -> None:
    cluster.kill("node-a/containerd")
    cluster.restart("node-a/kubelet")
    assert poll(lambda: cluster.daemon("node-a/kubelet").restarted, seconds=PATIENCE), "it did not end"

    cluster.restart("node-a/containerd")

    run_pod(cluster, "has-containerd-again", "node-a")


def test_a_paused_kubelet_goes_on_where_it_was(cluster: Cluster) -> None:
    pid = cluster.daemon("node-b/kubelet").pid
    cluster.pause("node-b/kubelet")
    assert_stops_being_ready(cluster, "node-b")

    cluster.resume("node-b/kubelet")

    assert_gets_ready(cluster, "node-b")
    assert cluster.daemon("node-b/kubelet").pid == pid


def test_pods_outlive_their_containerd(cluster: Cluster) -> None:
    run_pod(cluster, "outlives", "node-a")

    cluster.restart("node-a/containerd")

    run_pod(cluster, "comes-after", "node-a")
    assert container(cluster, "outlives")["restartCount"] == 0


def test_a_node_that_loses_power_loses_its_pods_and_brings_them_back(cluster: Cluster) -> None:
    run_pod(cluster, "on-b", "node-b")
    run_pod(cluster, "on-a", "node-a")
    cluster.kill("node-b")
    assert_stops_being_ready(cluster, "node-b")
    assert cluster.daemon("node-b/containerd").exited == -9

    cluster.restart("node-b")

    assert_gets_ready(cluster, "node-b")
    back = poll(
        lambda: (now := container(cluster, "on-b"))["restartCount"] == 1 and now["ready"], seconds=PATIENCE
    )
    assert back, "the pod was not started again"
    assert container(cluster, "on-a")["restartCount"] == 0


@pytest.mark.parametrize("name", CONTROL_PLANE)
def test_every_daemon_of_the_control_plane_can_be_killed_and_started_again(
    cluster: Cluster, name: str
) -> None:
    before = cluster.daemon(name).pid

    cluster.restart(name)

    assert cluster.daemon(name).pid != before
    assert_gets_ready(cluster, "node-a")
    run_pod(cluster, f"after-{name}", "node-a")


def test_an_unknown_name_is_answered_with_the_known_ones(cluster: Cluster) -> None:
    with pytest.raises(
        ClusterError, match=r"There is no kubelet in this cluster; there are .*node-a/kubelet"
    ):
        cluster.kill("kubelet")
    with pytest.raises(ClusterError, match=rf"There is no node node-z in cluster {NAME}; there are node-a"):
        cluster.spawn("x", ["true"], node="node-z")
    with pytest.raises(ClusterError, match=r"there is no program no-such-program"):
        cluster.spawn("x", ["no-such-program"])


def test_a_program_of_the_host_runs_inside_with_the_mounts_of_its_node(cluster: Cluster) -> None:
    script = f"""
import os, socket
print(os.environ["MINE"], "KUBECONFIG" in os.environ, os.getcwd())
socket.create_connection(("127.0.0.1", 6443)).close()
print(open({str(cluster.ca_file)!r}).readline())
print(os.path.exists("/var/lib/kubelet/device-plugins/kubelet.sock"))
open("/run/cdi/mine", "w").close()
"""
    daemon = cluster.spawn("agent", [sys.executable, "-c", script], env={"MINE": "yes"}, node="node-a")

    assert daemon.name == "node-a/agent"
    assert poll(lambda: daemon.exited is not None, seconds=PATIENCE)
    assert (daemon.exited, cluster.log("node-a/agent").split()) == (
        0,
        ["yes", "False", "/", "-----BEGIN", "CERTIFICATE-----", "True"],
    )
    other = cluster.spawn("agent", ["ls", "/var/run/cdi"], node="node-b")
    assert poll(lambda: other.exited is not None, seconds=PATIENCE)
    assert cluster.log("node-b/agent") == ""


def test_a_program_that_attaches_sees_and_moves_the_same_processes(cluster: Cluster) -> None:
    cluster.spawn("sleeper", ["sleep", "1000"])
    attached = Cluster.attach(NAME)

    assert attached.daemon("sleeper").pid == cluster.daemon("sleeper").pid
    attached.restart("sleeper")
    assert cluster.daemon("sleeper").exited is None
    attached.kill("sleeper")
    assert cluster.daemon("sleeper").exited == -9


def test_a_service_account_token_has_the_rights_of_its_account_and_no_more(cluster: Cluster) -> None:
    token = cluster.service_account_token("default", "default", 600)

    with pytest.raises(ClusterError, match="Forbidden"):
        cluster.kubectl("get", "pods", f"--token={token}", "--kubeconfig=/dev/null", *_connection(cluster))
    whoami = cluster.kubectl(
        "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", f"--token={token}",
        "--kubeconfig=/dev/null", *_connection(cluster),
    )  # fmt: skip
    assert whoami == "system:serviceaccount:default:default"


def _connection(cluster: Cluster) -> list[str]:
    return [f"--server={cluster.api_server}", f"--certificate-authority={cluster.ca_file}"]


def test_every_node_has_simulated_gpus_with_device_nodes(cluster: Cluster) -> None:
    first, second = (FakeNvml(cluster.gpu_folder(node)).uuids() for node in cluster.nodes)
    assert len(set(first) | set(second)) == 8

    devices = {path.name: path.stat() for path in (cluster.gpu_folder("node-a") / "dev").iterdir()}

    assert set(devices) == {
        "nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools",
    }  # fmt: skip
    assert all(stat.S_ISCHR(status.st_mode) for status in devices.values())
