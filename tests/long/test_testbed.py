"""What a test leaves behind is repaired and reported; where it cannot be, a fresh cluster takes its place."""

import pytest

from devcluster.cluster import Cluster
from devcluster.product import Parts
from tests.e2e.playground import Playground
from tests.e2e.testbed import GPUS, NODES, Testbed
from tests.e2e.usual import CONTROLLER

pytestmark = pytest.mark.e2e

NODE = NODES[0]
OTHER = {**CONTROLLER, "GPU_BOOKING_LOG_LEVEL": "debug"}


def as_before(playground: Playground) -> None:
    """What every test may rely on."""
    for node in NODES:
        playground.await_gpus(node, GPUS)
    name = playground.simple("after", gpus=1)
    playground.await_phase([name])
    playground.check_agreement(name)


def test_paused_and_ended_processes_run_again_and_are_named(
    cluster: Cluster, playground: Playground, testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    before = cluster.pid
    cluster.kill(f"{NODE}/node-agent")
    cluster.kill("etcd")
    cluster.pause(f"{NODE}/kubelet")
    cluster.pause("kube-apiserver")

    testbed.restart_daemons("test_x")

    output = capsys.readouterr().out
    for what in (
        f"{NODE}/node-agent had ended",
        "etcd had ended",
        f"{NODE}/kubelet was stopped",
        "kube-apiserver was stopped",
    ):
        assert f"test_x left it so: {what}" in output
    testbed.restore("test_x", playground.clear)
    assert testbed.cluster.pid == before
    as_before(playground)


def test_lost_gpus_are_restored_stray_processes_end_and_restart_counts_begin_again(
    cluster: Cluster, parts: Parts, playground: Playground, testbed: Testbed
) -> None:
    before = cluster.pid
    fake = parts.fake_nvml(NODE)
    fake.lose(0)
    playground.await_gpus(NODE, GPUS - 1)
    parts.start_controller(name="controller-more")
    stray = cluster.spawn("stray", ["sleep", "3600"])
    cluster.spawn("falls", ["sh", "-c", "exit 1"], restarted_always=True)
    playground.await_that("it has crashed", lambda: cluster.daemon("falls").restarted or None)

    testbed.restore("test_x", playground.clear)

    assert testbed.cluster.pid == before
    assert stray.exited is not None
    assert parts.controller("controller-more").exited is not None
    assert not any(daemon.restarted for daemon in cluster.daemons.values())
    as_before(playground)


def test_a_cluster_that_cannot_be_mended_is_replaced_and_the_test_that_left_it_so_is_named(
    cluster: Cluster, parts: Parts, testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    before = cluster.pid
    parts.controller().kill()
    parts.start_controller(OTHER)

    testbed.restore("test_x", lambda: None)

    output = capsys.readouterr().out
    assert "test_x left the cluster otherwise than it was: " in output
    assert "booking-controller runs with other arguments or settings" in output
    assert testbed.cluster.pid != before
    assert testbed.parts.is_ready(testbed.parts.controller())
