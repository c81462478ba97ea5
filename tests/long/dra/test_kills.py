"""Drivers of claims and kubelets are killed while pods with claims come and go; pods are deleted by force.

``SHOW_PODS=... FIRE_SEED=... pytest -s tests/long/dra/test_kills.py`` plays the same again.
"""

import os
import sys
import threading
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Final

import pytest

from cluster import claim_names
from cluster.kube.resources import PODS, TAINT_RULES
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.pod_status import describe
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import GPUS, NODES
from tests.laws.live import LiveWatch
from tests.long.beside.crowd import WORKS, Crowd
from tests.long.dra.ground import AGENT, BY_CLAIM, allocated, claiming, given_by_claims
from tests.long.dra.sights import Sights, looked_at
from tests.long.fire.harm import Blow, Harm, new_seed, share
from tests.patience import PATIENCE
from tests.threads import running

COUNT: Final = int(os.environ.get("SHOW_PODS", "300"))
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800 + 10 * COUNT)]

WAITING: Final = 14
"""Bob's pods at any time: more than there are GPUs."""
NODE: Final = NODES[1]
HAND_OVERS: Final = 8
TARGETS: Final = tuple(f"{node}/{name}" for node in NODES for name in (AGENT, "kubelet"))


def test_whatever_is_killed_no_device_is_in_two_pods_and_each_comes_free_again(
    cluster: Cluster, parts: Parts, playground: Playground, alice: Person, bob: Person
) -> None:
    seed, stop, killed = new_seed(), threading.Event(), list[str]()
    sys.stdout.write(f"To have the same again: FIRE_SEED={seed} SHOW_PODS={COUNT}\n")
    pod = partial(claiming, seconds=WORKS)

    def kill() -> None:
        for number, target in zip(count(), cycle(TARGETS), strict=False):
            if stop.is_set():
                return
            blow = Blow(target, "now", down=2 * share(seed, target, str(number)))
            Harm(cluster, (blow,), fault=playground.laws.fault).interlude("now")
            killed.append(target)
            SystemClock().wait(stop, 4 * share(seed, target, str(number), "next"))

    with given_by_claims(parts, playground, *NODES), looked_at(cluster) as sights:
        crowd = Crowd(playground, alice, bob, COUNT, model=BY_CLAIM, pod=pod, waiting=WAITING)
        with running([partial(crowd.bob, stop), partial(crowd.alice, stop), kill], stop):
            playground.await_that(
                "every pod has run to its end",
                lambda: not crowd.unfinished() or None,
                every=1.0,
                seconds=10 * PATIENCE + 10 * COUNT,
            )
        crowd.leave()
        failed = [f"{pod.metadata.name}: {describe(pod)}" for pod in crowd.failed()]
        sys.stdout.write(f"{COUNT} pods, {len(crowd.served)} booked ones; {len(killed)} times killed\n")
        sys.stdout.write(f"failed: {failed}\n")
        assert set(killed) >= set(TARGETS)
        assert crowd.served
        playground.clear()
        _everything_is_free(parts, sights, playground)
        last = [playground.create(claiming(f"last-{n}")) for n in range(GPUS * len(NODES))]
        playground.await_phase(last)


def _everything_is_free(parts: Parts, sights: Sights, playground: Playground) -> None:
    """For Kubernetes, for the agents, for the container runtime, and in no container."""
    playground.await_that("no claim has a device", lambda: not allocated(playground) or None)
    playground.await_that("no GPU is kept", lambda: not playground.kube.list(TAINT_RULES).items or None)
    for node in NODES:
        playground.await_that(
            f"nothing is prepared on {node}", lambda node=node: not sights.prepared(node) or None
        )
        assert not sights.seen(node)
        of_the_node = Path(f"/proc/{parts.agent(node, AGENT).pid}/root/run/cdi")
        assert not [*of_the_node.glob(f"{claim_names.CLAIM_CDI_PREFIX}*")]


@pytest.mark.parametrize("is_away", [False, True], ids=["driver alive", "driver dead"])
def test_a_device_of_a_pod_that_was_deleted_by_force_waits_for_its_container(
    cluster: Cluster,
    parts: Parts,
    playground: Playground,
    bob: Person,
    live_watch: LiveWatch,
    *,
    is_away: bool,
) -> None:
    """kube-scheduler gives it away at once; while the driver is dead nobody can say that it is free."""
    with given_by_claims(parts, playground, NODE), looked_at(cluster) as sights:
        agent = parts.agent(NODE, AGENT)
        holders = [bob.create(claiming(f"holder-{n}", node=NODE)) for n in range(GPUS)]
        playground.await_phase(holders)
        for number in range(1 if is_away else HAND_OVERS):
            late = bob.create(claiming(f"late-{number}", node=NODE))
            playground.await_waiting(late)
            leaver, *holders = *holders, late
            if is_away:
                live_watch.fault("the driver is killed")
                agent.kill()
            playground.kube.delete(PODS, leaver, namespace=playground.namespace, grace_seconds=0)
            if is_away:
                playground.await_bound(late)
                agent.restart()
                live_watch.fault("the driver runs")
            playground.await_phase(holders)
        assert len(sights.prepared(NODE)) == GPUS
