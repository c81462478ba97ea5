"""One node of each kind and kubelets of two versions: the story, then many pods while everything is killed.

``SHOW_PODS=... FIRE_SEED=... pytest -s tests/long/beside/test_every_kind.py`` plays the same again.
"""

import io
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle
from typing import Final

import pytest

from cluster import names
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.play import play
from devcluster.demo.pod_status import describe
from devcluster.demo.reporter import Reporter
from devcluster.demo.rest import Rest
from devcluster.fakenvml.specs import A100_80GB, gpu
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground
from tests.e2e.story_run import VICTIMS, pods_that
from tests.laws.l9 import assert_unchanged
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.beside.conftest import Beside, start_standin
from tests.long.beside.crowd import Crowd
from tests.long.fire.harm import Blow, Harm, new_seed, share
from tests.patience import PATIENCE
from tests.threads import running

PODS: Final = int(os.environ.get("SHOW_PODS", "200"))
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600 + 10 * PODS)]  # Kubernetes may be built first

OURS, OURS_OLD, OBSERVED, COUNTED = "node-a", "node-b", "node-c", "node-d"
OLD: Final = "1.34"
LEEWAY: Final = 15.0
"""Seconds between the read and the write of an honest decision of a part that was away."""
GFD: Final = {"product": A100, "memory": "81920", "count": "1"}
LABELS: Final = {
    OBSERVED: {names.DEVICE_PLUGIN: "existing"},
    COUNTED: {names.WITHOUT_AGENT: "true", **{f"{names.GPU_RESOURCE}.{key}": GFD[key] for key in GFD}},
}
NODES: Final = tuple(
    NodeSpec(
        name=name,
        gpus=(gpu(A100_80GB, 0, node=name),),
        labels=LABELS.get(name, {}),
        kubernetes=OLD if name in {OURS_OLD, OBSERVED} else "",
    )
    for name in (OURS, OURS_OLD, OBSERVED, COUNTED)
)


@dataclass(frozen=True)
class Bed:
    cluster: Cluster
    parts: Beside
    laws: LiveWatch

    def person(self, name: str, ground: Playground) -> Person:
        """Somebody in a namespace."""
        self.parts.people.admit(name, ground.namespace)
        rest = Rest(self.parts.booking_url, self.parts.people.token(name, names.AUDIENCE))
        return Person(name, person(self.cluster, self.parts.people.token(name)), rest, ground)

    def targets(self) -> tuple[str, ...]:
        """Whatever can be killed: all of ours, the other plugin, and the kubelets."""
        parts = self.parts
        ours = (parts.extender(), parts.scheduler(), parts.server(), parts.controller())
        agents = (parts.agent(node) for node in (OURS, OURS_OLD, OBSERVED))
        others = (f"{node}/stock-plugin" for node in (OBSERVED, COUNTED))
        kubelets = (f"{node.name}/kubelet" for node in NODES)
        return (*(one.name for one in (*ours, *agents)), *others, *kubelets)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with Cluster.start(ClusterSpec(name=own("everykind"), nodes=NODES)) as cluster:
        for node in (OBSERVED, COUNTED):
            start_standin(cluster, node)
        with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster), leeway=LEEWAY) as laws:
            yield Bed(cluster, Beside(cluster, whose="ours", without={COUNTED}), laws)


def test_the_story_and_then_many_pods_whatever_is_killed(bed: Bed) -> None:
    try:
        _play(bed)
    except BaseException:
        sys.stdout.write(f"All logs are kept in {bed.cluster.keep_logs()}\n")
        raise


def _play(bed: Bed) -> None:
    written = io.StringIO()
    play(bed.cluster, Reporter(written), parts=bed.parts, patience=PATIENCE)
    bed.laws.finish()
    output = written.getvalue()
    assert pods_that(output, "comes back without a GPU") == VICTIMS, output
    bed.cluster.kubectl("delete", "pods", "--all", "--namespace=research", "--grace-period=1")

    bed.laws.begin("many pods")
    bed.cluster.kubectl("create", "namespace", "crowd")
    ground = Playground(administrator(bed.cluster), bed.cluster.kubectl, namespace="crowd", laws=bed.laws)
    _many_pods(bed, ground)
    bed.laws.finish()
    _same_after_a_restart(bed, ground)


def _many_pods(bed: Bed, ground: Playground) -> None:
    seed, stop = new_seed(), threading.Event()
    sys.stdout.write(f"To have the same again: FIRE_SEED={seed} SHOW_PODS={PODS}\n")
    crowd = Crowd(ground, bed.person("alice", ground), bed.person("bob", ground), PODS)
    killed: list[str] = []

    def kill() -> None:
        for number, target in zip(count(), cycle(bed.targets()), strict=False):
            if stop.is_set():
                return
            blow = Blow(target, "now", down=2 * share(seed, target, str(number)))
            Harm(bed.cluster, (blow,), fault=bed.laws.fault).interlude("now")
            killed.append(target)
            SystemClock().wait(stop, 4 * share(seed, target, str(number), "next"))

    with running([lambda: crowd.bob(stop), lambda: crowd.alice(stop), kill], stop):
        ground.await_that(
            "every pod has run to its end",
            lambda: not crowd.unfinished() or None,
            every=1.0,
            seconds=10 * PATIENCE + 10 * PODS,
        )
    failed = [f"{pod.metadata.name}: {describe(pod)}" for pod in crowd.failed()]
    sys.stdout.write(f"{PODS} pods, {len(crowd.served)} booked ones; killed: {', '.join(killed)}\n")
    sys.stdout.write(f"failed: {failed}\n")
    assert set(bed.targets()) <= set(killed)
    assert crowd.served
    bed.parts.await_ready()
    crowd.leave()


def _same_after_a_restart(bed: Bed, ground: Playground) -> None:
    """Law L9, with a pod on every node."""
    ground.clear()
    for node in NODES:
        ground.await_gpus(node.name, 1)
    bed.person("alice", ground).book()
    stays = [ground.simple(f"stays-{node.name}", node=node.name) for node in NODES]
    ground.await_phase(stays)
    before = bed.laws.fingerprint()
    for target in bed.targets():
        bed.laws.fault(f"{target} is killed")
        bed.cluster.daemon(target).kill()
    for target in reversed(bed.targets()):
        bed.cluster.daemon(target).restart()
    bed.parts.await_ready()
    for node in NODES:
        ground.await_gpus(node.name, 1)
    ground.await_phase(stays)
    after = ground.simple("after")
    ground.await_waiting(after)
    ground.delete(after)
    ground.await_that("it is gone", lambda: after not in {p.metadata.name for p in ground.pods()} or None)
    bed.laws.finish()
    assert_unchanged(before, bed.laws.fingerprint())
