"""Where a pod would be placed: what ours says equals what a stock kube-scheduler finds, node by node."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cluster.cache import ClusterCache
from cluster.decide.scheduler_filters import ClusterObjects, checker_for
from cluster.fake.clock import FakeClock, eventually
from cluster.kube.client import KubeClient
from cluster.kube.interface import Selection
from cluster.kube.resources import NAMESPACES, NODES, PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES, Resource
from cluster.objects.pods import Pod
from devcluster.cluster import Cluster
from devcluster.spec import ClusterSpec, NodeSpec
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.cases import Json, a_pod, container, mount, required, term
from tests.clusters import own
from tests.controlplane.access import ACCOUNTS, client
from tests.e2e.playground import PATIENCE
from tests.long.controlplane.onlooker import NAME, Onlooker, observing

pytestmark = pytest.mark.controlplane

EVERYWHERE = {"tolerations": [{"operator": "Exists"}]}
GOLD_ALONE = term(cases.ZONE, {}, namespaceSelector=cases.selector(tier="gold"))
KNOWN_LAST: dict[str, Json] = {
    "claims": {"volumes": [mount(cases.CLAIMS[-1]["metadata"]["name"])]},
    "namespaces": {"affinity": required("podAffinity", GOLD_ALONE)},
    "nodes": {"nodeSelector": {cases.HOST: cases.NODES[-1]["metadata"]["name"]}},
    "pods": {"containers": [container(ports=[cases.port(8080, hostIP="127.0.0.1")])]},
}
"""Pods whose place hangs on what was made last of a kind: each kind comes to the scheduler by itself."""


@dataclass(frozen=True)
class Ground:
    """A cluster with all of the cases in it, and a scheduler that never binds."""

    kube: KubeClient
    onlooker: Onlooker

    def cluster_objects(self) -> ClusterObjects:
        """What a cache that is filled from this API server would say now."""
        cache = ClusterCache(FakeClock())
        cache.keep_scheduling_objects()
        cache.of(VOLUME_CLAIMS).replace(self.kube.list(VOLUME_CLAIMS).items, "")
        cache.of(VOLUMES).replace(self.kube.list(VOLUMES).items, "")
        cache.of(STORAGE_CLASSES).replace(self.kube.list(STORAGE_CLASSES).items, "")
        cache.of(NAMESPACES).replace(self.kube.list(NAMESPACES).items)
        cache.of(NODES).replace(self.kube.list(NODES).items)
        pods = self.kube.list(PODS)
        cache.of(PODS).replace(pods.items, pods.resource_version)
        return cache.cluster_objects()

    def ask(self, bodies: Sequence[Json]) -> list[tuple[Pod, frozenset[str]]]:
        """Create pods, wait until the scheduler has tried each, take them away; the pods and their nodes."""
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(self._create, bodies))
            eventually(lambda: self._tried() >= {pod.metadata.uid for pod in made}, deadline=PATIENCE)
            found = [(pod, self.onlooker.found(pod.metadata.uid)) for pod in made]
            list(pool.map(self._remove, made))
        return found

    def _create(self, body: Json) -> Pod:
        meta = {**body["metadata"], "name": None, "generateName": "asked-"}
        spec = {**body["spec"], "schedulerName": NAME, "terminationGracePeriodSeconds": 0}
        return self.kube.create(PODS, {"metadata": meta, "spec": spec}, namespace=meta["namespace"])

    def _remove(self, pod: Pod) -> None:
        self.kube.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, grace_seconds=0)

    def _tried(self) -> set[str]:
        return {pod.metadata.uid for pod in self.kube.list(PODS).items if _is_refused(pod)}


def _is_refused(pod: Pod) -> bool:
    conditions = pod.status.conditions or ()
    return any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in conditions)


def ours(pod: Pod, cluster_objects: ClusterObjects, without: frozenset[str] = frozenset()) -> frozenset[str]:
    """Nodes on which ours would have the pod placed."""
    checker = checker_for(pod, cluster_objects)
    return frozenset(
        name for name, node in cluster_objects.nodes.items() if checker.why_not(node, without=without) is None
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("fitting"), nodes=(NodeSpec(name="idle"),))) as running:
        yield running


@pytest.fixture(scope="module")
def kube(cluster: Cluster) -> Iterator[KubeClient]:
    made = client(cluster, cluster.administrator_token)
    yield made
    made.close()


@pytest.fixture(scope="module")
def ground(cluster: Cluster, kube: KubeClient) -> Iterator[Ground]:
    for name, labels in cases.NAMESPACES.items():
        kube.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        eventually(lambda name=name: kube.list(ACCOUNTS, Selection(namespace=name)).items, deadline=PATIENCE)
    # Its controllers would taint nodes that no kubelet speaks for, and bind claims.
    cluster.pause("kube-controller-manager")
    for classed in cases.CLASSES:
        kube.create(STORAGE_CLASSES, classed)
    for resource, bodies in ((VOLUMES, cases.VOLUMES), (VOLUME_CLAIMS, cases.CLAIMS)):
        for body in bodies:
            _create_with_status(kube, resource, body)
    for body in cases.NODES:
        _create_with_status(kube, NODES, body)
        taints = {"spec": {"taints": body["spec"].get("taints")}}
        kube.patch(NODES, body["metadata"]["name"], taints)
    for body in cases.RESIDENTS:
        kube.create(PODS, body, namespace=body["metadata"]["namespace"])
    with observing(cluster) as onlooker:
        made = Ground(kube, onlooker)
        for spec in KNOWN_LAST.values():
            until_known(made, a_pod("", **{**EVERYWHERE, **spec}))
        yield made
    cluster.resume("kube-controller-manager")


def _create_with_status(kube: KubeClient, resource: Resource[Any], body: Json) -> None:
    meta = body["metadata"]
    kube.create(resource, body, namespace=meta.get("namespace"))
    status = {"status": body["status"]}
    kube.patch(resource, meta["name"], status, namespace=meta.get("namespace"), subresource="status")


def until_known(ground: Ground, body: Json) -> None:
    """Wait until the scheduler has seen what this pod's place hangs on."""
    cluster_objects = ground.cluster_objects()

    def agrees() -> bool:
        ((pod, theirs),) = ground.ask([body])
        return theirs == ours(pod, cluster_objects)

    eventually(agrees, deadline=PATIENCE)


def differences(
    ground: Ground, bodies: Sequence[Json]
) -> list[tuple[Json, dict[str, str | None], list[str]]]:
    """Pods about which the two do not agree: node -> our reason, and where the scheduler would place it."""
    cluster_objects, ghosts = ground.cluster_objects(), [msgspec.convert(body, Pod) for body in cases.GHOSTS]
    haunted, uids = cluster_objects, frozenset(f"uid-{ghost.metadata.name}" for ghost in ghosts)
    for ghost in ghosts:
        known = msgspec.structs.replace(ghost.metadata, uid=f"uid-{ghost.metadata.name}")
        there = msgspec.structs.replace(ghost, metadata=known)
        haunted = haunted.placing(there, ghost.spec.node_name or "")
    wrong = []
    for body, (pod, theirs) in zip(bodies, ground.ask(bodies), strict=True):
        for surroundings, without in ((cluster_objects, frozenset[str]()), (haunted, uids)):
            checker = checker_for(pod, surroundings)
            reasons = {
                name: checker.why_not(node, without=without) for name, node in cluster_objects.nodes.items()
            }
            if theirs != {name for name, why in reasons.items() if why is None}:
                wrong.append((body, reasons, sorted(theirs)))
    return wrong


def test_every_volume_claim_and_every_key_by_itself(ground: Ground) -> None:
    claims = [*(claim["metadata"]["name"] for claim in cases.CLAIMS), cases.UNKNOWN_CLAIM]
    bodies = [a_pod("", **EVERYWHERE, volumes=[mount(claim)]) for claim in claims]
    for key in (cases.ZONE, cases.HOST, cases.RACK):
        for app in ("web", "db", "lone", "nobody"):
            chosen = cases.selector(app=app)
            bodies += [
                a_pod("", labels=labels, **EVERYWHERE, affinity=required(kind, term(key, chosen)))
                for kind in ("podAffinity", "podAntiAffinity")
                for labels in ({}, {"app": "nobody"}, {"app": "db", "loud": "yes"})
            ]
            bodies += [
                a_pod(
                    "",
                    labels={"app": app},
                    **EVERYWHERE,
                    topologySpreadConstraints=[_spread(key, chosen, skew)],
                )
                for skew in (1, 2)
            ]
    assert differences(ground, bodies) == []


def _spread(key: str, chosen: Json, skew: int) -> Json:
    when = "DoNotSchedule"
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": chosen}


# No shrinking: each try costs seconds on a real cluster, and what differs is named one by one.
@settings(max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(bodies=st.lists(cases.pods(), min_size=30, max_size=40))
def test_pods_of_all_kinds(ground: Ground, bodies: list[Json]) -> None:
    assert differences(ground, bodies) == []
