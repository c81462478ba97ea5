"""A real kubelet without the Pods API, as before Kubernetes 1.37: our own watch shows which pod it is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.product import Parts
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-a"
GPUS = 4
PODS_API = "var/lib/kubelet/pods-api/pods-api.sock"
WATCHED = "the pods of this node are watched at the API server"


@pytest.fixture
def agent(cluster: Cluster, parts: Parts, playground: Playground) -> Iterator[Daemon]:
    """The node's agent, with a kubelet that is configured without the API."""
    kubelet, agent = cluster.daemon(f"{NODE}/kubelet"), parts.agent(NODE)
    file = cluster.state / NODE / "kubelet.json"
    before = file.read_text()
    file.write_text(json.dumps({**json.loads(before), "featureGates": {"PodsAPI": False}}))
    kubelet.restart()
    Path(f"/proc/{kubelet.pid}/root", PODS_API).unlink(missing_ok=True)
    agent.restart()
    playground.await_gpus(NODE, GPUS)
    yield agent
    file.write_text(before)
    kubelet.restart()
    agent.restart()
    playground.await_gpus(NODE, GPUS)


def test_pods_get_the_assigned_devices_and_their_names_may_be_reused(
    parts: Parts, playground: Playground, agent: Daemon
) -> None:
    playground.await_that("the pods are watched", lambda: WATCHED in agent.log.read_text() or None)
    served = [playground.simple(f"served-{n}", node=NODE) for n in range(GPUS - 1)]
    playground.await_phase(served)
    for name in served:
        playground.check_agreement(name)
    playground.delete("served-0")
    playground.await_that(
        "it is gone", lambda: "served-0" not in {p.metadata.name for p in playground.pods()} or None
    )
    again = [playground.simple(name, node=NODE) for name in ("served-0", "another")]
    playground.await_phase(again)
    for name in again:
        playground.check_agreement(name)
    playground.check_law_1()
    samples = parts.ask(agent, "/metrics")[1].splitlines()
    verdicts = {line for line in samples if "_agent_admissions_total{" in line}
    assert [line.rpartition(" ")[2] for line in verdicts] == [f"{GPUS + 1:.1f}"], verdicts
    assert all('verdict="assigned"' in line for line in verdicts)
