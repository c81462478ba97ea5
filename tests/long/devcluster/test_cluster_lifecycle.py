"""Starting and stopping real clusters: what is there afterwards, and what is not."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import cluster as clusters
from devcluster import machine, network
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.paths import paths_of
from devcluster.procstat import PARENT, fields_of
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import Stopwatch, poll
from tests.clusters import own
from tests.devcluster.machine import Machine, alive, processes_like
from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e

NAME = own("life")
SECOND = own("life-2")


def spec(name: str) -> ClusterSpec:
    return ClusterSpec(name=name, nodes=(NodeSpec(name="node-a"), NodeSpec(name="node-b")))


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    for name in (NAME, SECOND):
        clusters.remove(name)
        shutil.rmtree(paths_of(name).kept_logs, ignore_errors=True)


def run_a_pod(cluster: Cluster) -> None:
    """A pod per node, so that there are shims, network namespaces, mounts and rules to be left behind."""
    for node in cluster.nodes:
        cluster.kubectl(
            "run", f"on-{node}", "--image=localhost/gpu-booking/probe:1", "--image-pull-policy=Never",
            f"--overrides={json.dumps({'spec': {'nodeName': node}})}",
        )  # fmt: skip
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")


def assert_files_are_gone(name: str) -> None:
    where = paths_of(name)
    assert not where.state.exists()
    assert not where.lock.exists()
    assert not where.kubeconfig.exists()
    assert network.links(where.mark) == []


def test_a_stopped_cluster_leaves_the_machine_as_it_found_it() -> None:
    before = Machine.now(paths_of(NAME).mark)
    cluster = Cluster.start(spec(NAME))
    run_a_pod(cluster)
    inside = processes_like(cluster.pid)
    assert len(inside) > len(cluster.daemons), "its daemons, shims and pods"
    assert Machine.now(paths_of(NAME).mark) != before

    cluster.stop()

    assert alive(inside) == frozenset()
    assert Machine.now(paths_of(NAME).mark) == before
    assert_files_are_gone(NAME)


@pytest.mark.parametrize("which", ["first process", "its parent"])
def test_one_kill_ends_a_whole_cluster_and_the_next_start_needs_no_help(which: str) -> None:
    before = Machine.now(paths_of(NAME).mark)
    cluster = Cluster.start(spec(NAME))
    run_a_pod(cluster)
    inside = processes_like(cluster.pid)
    os.kill(cluster.pid if which == "first process" else parent_of(cluster.pid), signal.SIGKILL)
    cluster.release()
    assert poll(lambda: not alive(inside), seconds=PATIENCE), "processes of the killed cluster live on"
    killed = Machine.now(paths_of(NAME).mark)
    assert (killed.mounts, killed.links, killed.routes, killed.rules) == (
        before.mounts, before.links, before.routes, before.rules,
    )  # fmt: skip

    with Cluster.start(spec(NAME)) as again:
        run_a_pod(again)

    assert Machine.now(paths_of(NAME).mark) == before
    assert_files_are_gone(NAME)


# SIGHUP ends it also where the tests run under nohup, which has all processes ignore it.
OWNER = (
    "import signal, sys, time; from devcluster.cluster import Cluster\n"
    "from devcluster.spec import ClusterSpec, NodeSpec\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    "cluster = Cluster.start(ClusterSpec(name=sys.argv[1], nodes=(NodeSpec(name='node-a'),)))\n"
    "print('up', flush=True)\n"
    "time.sleep(600)"
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_cluster_ends_with_its_owner_however_that_ends(number: signal.Signals) -> None:
    before = Machine.now(paths_of(NAME).mark)
    with subprocess.Popen([sys.executable, "-c", OWNER, NAME], stdout=subprocess.PIPE) as owner:
        try:
            assert owner.stdout
            assert owner.stdout.readline() == b"up\n"
            cluster = Cluster.attach(NAME)
            run_a_pod(cluster)
            inside = processes_like(cluster.pid)
            assert len(inside) > len(cluster.daemons)
            owner.send_signal(number)
            assert owner.wait(PATIENCE) == -number
        finally:
            owner.kill()  # else a test that fails waits for it, and the next ones find the name in use
    watch = Stopwatch()
    assert poll(lambda: not alive(inside), seconds=PATIENCE, every=0.01), "processes outlive their owner"
    sys.stdout.write(f"all of it has ended {watch.seconds:.2f} s after its owner\n")

    messages: list[str] = []
    machine.remove_left_behind(messages.append)

    assert f"removed cluster {NAME}: its owner is dead" in messages
    assert Machine.now(paths_of(NAME).mark) == before
    assert_files_are_gone(NAME)


def test_a_released_cluster_outlives_its_owner_and_does_not_count_as_left_behind() -> None:
    text = OWNER.replace("time.sleep(600)", "cluster.release()")
    subprocess.run([sys.executable, "-c", text, NAME], check=True, capture_output=True)

    machine.remove_left_behind(lambda _line: None)

    assert Cluster.attach(NAME).kubectl("get", "--raw", "/readyz") == "ok"


def test_a_start_replaces_a_released_cluster() -> None:
    first = Cluster.start(spec(NAME))
    inside = processes_like(first.pid)
    first.release()

    with Cluster.start(spec(NAME)) as second:
        assert alive(inside) == frozenset()
        assert second.kubectl("get", "nodes", "--output=name").split() == ["node/node-a", "node/node-b"]


def test_two_clusters_run_side_by_side_and_stop_on_their_own() -> None:
    with Cluster.start(spec(NAME)) as first:
        second = Cluster.start(spec(SECOND))
        assert first.api_server != second.api_server
        run_a_pod(first)
        run_a_pod(second)
        second.kubectl("create", "namespace", "only-here")
        assert "only-here" not in first.kubectl("get", "namespaces")

        second.stop()

        assert_files_are_gone(SECOND)
        assert first.kubectl("get", "pods", "--no-headers").count("Running") == len(first.nodes)


def test_clusters_of_one_name_in_different_state_folders_are_independent(tmp_path: Path) -> None:
    with Cluster.start(spec(NAME)) as first, Cluster.start(spec(NAME), root=tmp_path) as second:
        second.kubectl("create", "namespace", "only-here")
        assert "only-here" not in first.kubectl("get", "namespaces")
        assert first.kubeconfig != second.kubeconfig
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_somebody_owns_is_refused() -> None:
    with Cluster.start(spec(NAME)) as cluster:
        with pytest.raises(ClusterError, match=f"Cluster {NAME} is in use by process {os.getpid()}"):
            Cluster.start(spec(NAME))
        with pytest.raises(ClusterError, match="is in use"):
            clusters.remove(NAME)
        assert cluster.kubectl("get", "--raw", "/readyz") == "ok"


def test_a_start_that_fails_shows_the_log_of_the_process_that_ended_and_leaves_only_logs() -> None:
    wrong = ClusterSpec(name=NAME, apiserver_arguments=("--no-such-flag",))

    with pytest.raises(ClusterError) as caught:
        Cluster.start(wrong)

    assert "kube-apiserver ended with 1" in str(caught.value)
    assert "unknown flag: --no-such-flag" in str(caught.value)
    assert (paths_of(NAME).kept_logs / "kube-apiserver.log").exists()
    assert_files_are_gone(NAME)


def parent_of(pid: int) -> int:
    fields = fields_of(pid)
    assert fields
    return int(fields[PARENT])
