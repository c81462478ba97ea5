"""Mode ``existing``: the cluster's own kube-scheduler places pods where the leading extender says."""

import json
import re
import sys
import threading

import pytest
import yaml

from cluster import names
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.components import scheduler
from devcluster.daemons import Daemon
from devcluster.product import Parts, existing
from devcluster.wait import Stopwatch
from docs.tables.markdown import ROOT
from tests.e2e.persons import Person
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

GPUS = 8
FROZEN = 20.0
"""Seconds for which a process is stopped: longer than the Lease lasts."""


def leader(parts: Parts, cluster: Cluster) -> Daemon:
    """The extender that is Ready."""
    (found,) = [cluster.daemon(name) for name in existing.NAMES if parts.is_ready(cluster.daemon(name))]
    return found


def bodies(prefix: str, number: int) -> list[dict[str, object]]:
    return [probe.pod(f"{prefix}-{n}", [probe.container("main", gpus=1)]) for n in range(number)]


def check(playground: Playground, pods: list[str]) -> None:
    """Everybody says the same about these pods, and no device is given twice."""
    for name in pods:
        playground.check_agreement(name)
    playground.check_law_1()
    assert len({u for p in pods for us in playground.assignment(p).values() for u in us}) == len(pods)


def test_the_clusters_own_scheduler_places_pods_on_the_devices_that_we_choose(playground: Playground) -> None:
    pods = playground.create_all(bodies("pod", GPUS))
    playground.await_phase(pods)
    check(playground, pods)
    assert {playground.pod(name).spec.scheduler_name for name in pods} == {existing.SCHEDULER}
    ninth = playground.simple("ninth")
    assert names.GPU_RESOURCE in playground.await_waiting(ninth)


def test_the_scheduler_runs_with_the_documented_additions_to_its_configuration(
    cluster: Cluster, parts: Parts
) -> None:
    assert parts
    text = (ROOT / "docs/extender.md").read_text()
    service = ("service", existing.SERVICE, f"--namespace={names.NAMESPACE}")
    address = cluster.kubectl("get", *service, "--output=jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
    (block,) = re.findall(r"generated: scheduler-existing -->\n```yaml\n(.*?)```", text, re.DOTALL)
    documented = yaml.safe_load(block)
    runs = json.loads(cluster._plan.configuration(f"{scheduler.NAME}.json").read_text())
    (extender,), (actual,) = documented["extenders"], runs["extenders"]
    extender["urlPrefix"] = f"https://{address}"
    for file in ("caFile", "certFile", "keyFile"):
        extender["tlsConfig"][file] = actual["tlsConfig"][file]
    assert {key: runs[key] for key in documented} == documented


def test_a_booked_pod_gets_its_gpu_from_one_that_has_no_booking(
    playground: Playground, alice: Person, bob: Person
) -> None:
    pods = [bob.create(body) for body in bodies("bob", GPUS)]
    playground.await_phase(pods)
    alice.book()
    mine = alice.create(probe.pod("alice", [probe.container("main", gpus=1)]))
    playground.await_phase([mine])
    playground.check_agreement(mine)


def test_the_leader_is_killed_in_a_burst_and_the_other_goes_on(
    playground: Playground, parts: Parts, cluster: Cluster
) -> None:
    killed = leader(parts, cluster)
    pods = playground.create_all(bodies("burst", GPUS // 2))
    killed.kill()
    since = Stopwatch()
    after = playground.create_all(bodies("after", GPUS // 2))
    playground.await_that("one is bound", lambda: playground.pod(after[0]).spec.node_name)
    sys.stdout.write(f"scheduling resumed {since.seconds:.1f} s after the leading extender was killed\n")
    pods += after
    playground.await_phase(pods)
    check(playground, pods)
    playground.await_that("one of them leads", lambda: bool(_ready(parts, cluster)))


def test_a_leader_that_was_paused_and_resumes_does_no_harm(
    playground: Playground, parts: Parts, cluster: Cluster
) -> None:
    frozen = leader(parts, cluster)
    first = playground.create_all(bodies("first", 2))
    frozen.pause()
    since = Stopwatch()
    try:
        then = playground.create_all(bodies("then", 2))
        playground.await_that(
            "the other one leads",
            lambda: frozen.name not in (ready := _ready(parts, cluster)) and ready,
        )
        playground.await_phase(then)
        SystemClock().wait(threading.Event(), max(0.0, FROZEN - since.seconds))
    finally:
        frozen.resume()
    last = playground.create_all(bodies("last", GPUS - 4))
    pods = [*first, *then, *last]
    playground.await_phase(pods)
    check(playground, pods)
    assert frozen.name not in _ready(parts, cluster)


def _ready(parts: Parts, cluster: Cluster) -> list[str]:
    return [name for name in existing.NAMES if parts.is_ready(cluster.daemon(name))]
