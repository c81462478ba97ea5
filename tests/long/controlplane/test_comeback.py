"""Pods leave and come back on a real API server; the test plays the kubelet."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from booking.controller.reclaimer.evictions.pod_evictor import PodEvictor
from booking.controller.reclaimer.evictor import EvictionCause, ProtectedError, Reason
from cluster import event_reasons, names
from cluster.cache import ClusterCache, Informers
from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Selection
from cluster.kube.resources import LIMIT_RANGES, POD_TEMPLATES, PODS, WHOLE_PODS, WholePod
from cluster.objects.pods import Pod, asks_for_gpus, has_condition, is_terminating
from cluster.objects.replaced_fields import Replaced, encode_replaced
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.controlplane.access import ACCOUNTS, BUDGETS, NAMESPACES, PRIORITY_CLASSES, client
from tests.e2e.playground import PATIENCE
from tests.fakes.pod_spec_schema import compact, stored_schema

pytestmark = pytest.mark.controlplane

CPU = {"cpu": "10m"}
GPU = {names.GPU_RESOURCE: "1", **CPU}
RUNTIME = "with-overhead"
TERM = {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "Exists"}]}


def notebook(name: str = "p") -> dict[str, Any]:
    """A bare pod with everything that could be refused when it comes back."""
    sidecar = {"name": "side", "image": "example.invalid/none", "restartPolicy": "Always"}
    setup = {"name": "setup", "image": "example.invalid/none", "resources": {"limits": GPU}}
    main = {
        "name": "main",
        "image": "example.invalid/none",
        "resources": {"limits": GPU, "requests": GPU},
        "env": [{"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"}, {"name": "A", "value": "b"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    required = {"nodeSelectorTerms": [TERM]}
    by_keys = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": name}},
        "matchLabelKeys": ["hash"],
    }
    apart = {**by_keys, "matchLabelKeys": [], "mismatchLabelKeys": ["hash"]}
    return {
        "metadata": {
            "name": name,
            "labels": {"app": name, "hash": "1"},
            "annotations": {
                names.USER: "bob",
                names.REPLACED: encode_replaced(Replaced(scheduler_name="nobody")),
            },
        },
        "spec": {
            "schedulerName": names.SCHEDULER_NAME,
            "priorityClassName": names.OPPORTUNISTIC_CLASS,
            "initContainers": [setup, sidecar],
            "containers": [main],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "nodeSelector": {"nvidia.com/gpu.count": "4"},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [by_keys]},
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 1, "podAffinityTerm": apart}
                    ]
                },
            },
            "topologySpreadConstraints": [{**by_keys, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}],
            "runtimeClassName": RUNTIME,
            "hostname": "h",
        },
    }


class FakeRecorder:
    """The Events that people see."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def normal(self, _about: Pod, reason: str, _message: str) -> None:
        self.reasons.append(reason)

    def warning(self, _about: Pod, reason: str, _message: str) -> None:
        self.reasons.append(reason)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("comeback"), nodes=(NodeSpec(name="idle"),))) as running:
        yield running


@pytest.fixture(scope="module")
def kube(cluster: Cluster) -> Iterator[KubeClient]:
    administrator = client(cluster, cluster.administrator_token)
    priority = {"metadata": {"name": names.OPPORTUNISTIC_CLASS}, "value": 0}
    administrator.create(PRIORITY_CLASSES, priority)
    runtime = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME},
        "handler": "runc",
        "overhead": {"podFixed": {"cpu": "1m"}},
    }
    cluster.kubectl("create", "-f", "-", given=json.dumps(runtime))
    yield administrator
    administrator.close()


@pytest.fixture
def namespace(kube: KubeClient) -> Iterator[str]:
    name = kube.create(NAMESPACES, {"metadata": {"generateName": "test-"}}).metadata.name
    eventually(lambda: kube.list(ACCOUNTS, Selection(namespace=name)).items, deadline=PATIENCE)
    yield name
    for pod in kube.list(PODS, Selection(namespace=name)).items:
        with contextlib.suppress(NotFound):
            kube.patch(PODS, pod.metadata.name, {"metadata": {"finalizers": None}}, namespace=name)
            kube.delete(PODS, pod.metadata.name, namespace=name, grace_seconds=0)
    # A namespace that a test has deleted may vanish at any moment.
    with contextlib.suppress(NotFound):
        kube.delete(NAMESPACES, name)


class Harness:
    """One victim, what evicts it and brings it back, and a kubelet."""

    def __init__(self, kube: KubeClient, namespace: str, stop: threading.Event) -> None:
        self.kube = kube
        self.namespace = namespace
        self.recorder = FakeRecorder()
        self.victim = self.running(notebook())
        clock = SystemClock()
        self.evictor = PodEvictor(kube, clock, self.recorder)
        following = Informers(kube, ClusterCache(clock), clock, namespace=namespace)
        self.evictor.follow(following)
        for kind in ("comebacks", "templates", "failed pods"):
            threading.Thread(target=following.threads[kind], args=(stop,), daemon=True).start()

    def running(self, body: dict[str, Any]) -> Pod:
        """A pod that a node has begun to run; the node is none, so that no real kubelet meddles."""
        name = body["metadata"]["name"]
        self.kube.create(PODS, body, namespace=self.namespace)
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "nowhere"}}
        self.kube.create_subresource(PODS, "binding", binding, name=name, namespace=self.namespace)
        ready = {"type": "Ready", "status": "True"}
        return self.status(name, {"phase": "Running", "conditions": [ready]})

    def status(self, name: str, status: dict[str, Any]) -> Pod:
        return self.kube.patch(PODS, name, {"status": status}, namespace=self.namespace, subresource="status")

    def pod(self) -> Pod | None:
        pods = self.kube.list(PODS, Selection(namespace=self.namespace)).items
        return next((pod for pod in pods if pod.metadata.name == "p"), None)

    def kubelet(self) -> None:
        """All containers of a terminating pod end."""
        pod = self.pod()
        if pod is None or not is_terminating(pod) or pod.metadata.deletion_grace_period_seconds == 0:
            return
        self.status("p", {"phase": "Failed"})
        uid = pod.metadata.uid
        self.kube.delete(PODS, "p", namespace=self.namespace, uid=uid, grace_seconds=0)

    @property
    def templates(self) -> int:
        return len(self.kube.list(POD_TEMPLATES, Selection(namespace=self.namespace)).items)

    def settles(self) -> bool:
        """One more pass; whether nothing of a comeback is left."""
        try:
            self.evictor.reconcile(frozenset())
            self.kubelet()
        except ApiError:
            return False
        pod = self.pod()
        leaves = pod is not None and (is_terminating(pod) or bool(pod.metadata.finalizers))
        gone = pod is None or pod.metadata.uid != self.victim.metadata.uid or not leaves
        return gone and not leaves and self.templates == 0

    def returned(self) -> bool:
        """One more pass; whether another pod has taken the victim's place, and nothing else is left."""
        pod = self.pod() if self.settles() else None
        return pod is not None and pod.metadata.uid != self.victim.metadata.uid


@pytest.fixture
def harness(kube: KubeClient, namespace: str) -> Iterator[Harness]:
    stop = threading.Event()
    yield Harness(kube, namespace, stop)
    stop.set()


def why(reason: Reason) -> EvictionCause:
    return EvictionCause(reason=reason, message="A booked pod needs the GPU.", grace_seconds=20)


@pytest.mark.parametrize("reason", ["evicted", "ended"])
def test_law_l4_a_pod_leaves_and_comes_back_without_a_gpu(harness: Harness, reason: Reason) -> None:
    harness.evictor.evict(harness.victim, why(reason))
    leaving = harness.pod()
    assert leaving is not None
    assert is_terminating(leaving)
    assert leaving.metadata.deletion_grace_period_seconds == 20
    assert has_condition(leaving, names.DISRUPTION_TARGET)
    eventually(harness.settles, deadline=PATIENCE)
    pod = harness.kube.get(WHOLE_PODS, "p", namespace=harness.namespace)
    annotations = pod.metadata.annotations or {}
    assert annotations[names.RECREATED_FROM] == harness.victim.metadata.uid
    assert annotations[names.USER] == "bob"
    assert pod.metadata.labels == {"app": "p", "hash": "1"}
    assert pod.metadata.finalizers is None
    now = harness.pod()
    assert now is not None
    assert not asks_for_gpus(now)
    assert (pod.spec["schedulerName"], pod.spec["hostname"]) == ("nobody", "h")
    assert pod.spec.get("nodeSelector") is None
    assert pod.spec["affinity"]["nodeAffinity"] == {}
    assert [one.get("resources") for one in pod.spec["containers"]] == [{"limits": CPU, "requests": CPU}]
    mounts = [mount["mountPath"] for mount in pod.spec["containers"][0]["volumeMounts"]]
    assert mounts == ["/data", "/var/run/secrets/kubernetes.io/serviceaccount"]
    assert harness.recorder.reasons[1:] == [event_reasons.CAME_BACK]


def test_law_l4_a_pod_that_is_to_wait_comes_back_as_it_was(harness: Harness) -> None:
    first = harness.kube.get(WHOLE_PODS, "p", namespace=harness.namespace)
    requeued = replace(why("evicted"), back="as-it-was", notice="At 09:00.")
    harness.evictor.evict(harness.victim, requeued)
    leaving = harness.pod()
    assert leaving is not None
    assert leaving.metadata.annotation(names.NOTICE) == "At 09:00."
    eventually(harness.returned, deadline=PATIENCE)
    pod = harness.kube.get(WHOLE_PODS, "p", namespace=harness.namespace)
    assert comparable(pod) == comparable(first)
    assert (pod.spec["schedulerName"], "nodeName" in pod.spec) == ("nobody", False)
    annotations = pod.metadata.annotations or {}
    assert annotations[names.EVICTIONS] == "1"
    assert names.NOTICE not in annotations
    assert harness.recorder.reasons[1:] == [event_reasons.REQUEUED]


def comparable(pod: WholePod) -> dict[str, Any]:
    """The stored spec without what may differ: node, scheduler, class and the name of a volume."""
    others = {"nodeName", "schedulerName", "priority", "priorityClassName", "preemptionPolicy"}
    (token,) = {volume["name"] for volume in pod.spec["volumes"] if "projected" in volume}
    text = json.dumps({key: value for key, value in pod.spec.items() if key not in others})
    found: dict[str, Any] = json.loads(text.replace(token, "token"))
    return found


@pytest.mark.parametrize("gpu", [names.GPU_RESOURCE, f"{names.MIG_RESOURCE_PREFIX}1g.10gb"])
def test_a_limit_range_gives_no_gpu_to_a_pod_that_comes_back_without_one(harness: Harness, gpu: str) -> None:
    limit = {"type": "Container", "max": {gpu: "2", names.GPU_RESOURCE: "2"}}
    limits = {"metadata": {"name": "gpus"}, "spec": {"limits": [limit]}}
    harness.kube.create(LIMIT_RANGES, limits, namespace=harness.namespace)
    bare = {"containers": [{"name": "main", "image": "example.invalid/none"}]}
    asking = {"metadata": {"name": "asking"}, "spec": bare}

    def is_known() -> bool:
        return asks_for_gpus(harness.kube.create(PODS, asking, namespace=harness.namespace, dry_run=True))

    eventually(is_known, deadline=PATIENCE)
    harness.evictor.evict(harness.victim, why("evicted"))
    eventually(harness.returned, deadline=PATIENCE)
    spec = harness.kube.get(WHOLE_PODS, "p", namespace=harness.namespace).spec
    for container in (*spec["containers"], *spec["initContainers"]):
        for amounts in container["resources"].values():
            none = {key: amount for key, amount in amounts.items() if names.is_gpu_resource(key)}
            assert none == dict.fromkeys({gpu, names.GPU_RESOURCE}, "0"), container["name"]
    assert harness.recorder.reasons[1:] == [event_reasons.CAME_BACK]


def test_every_field_of_a_pod_is_in_the_fixture(cluster: Cluster) -> None:
    """``tests.fakes.pod_spec_schema`` says how to write it anew; each new field then needs a row."""
    assert compact(json.loads(cluster.kubectl("get", "--raw", "/openapi/v3/api/v1"))) == stored_schema()


@pytest.mark.parametrize("began", [False, True], ids=["new", "after a reboot"])
def test_law_l4_a_pod_that_a_kubelet_refused_comes_back_as_it_was(harness: Harness, *, began: bool) -> None:
    ended = {"name": "main", "ready": False, "restartCount": 0, "image": "x", "imageID": ""}
    killed = {**ended, "state": {"terminated": {"exitCode": 137}}}
    refused = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Pod was rejected: Allocate failed due to no healthy devices present",
        **({"containerStatuses": [killed]} if began else {"conditions": None}),
    }
    harness.status("p", refused)
    eventually(harness.returned, deadline=PATIENCE)
    pod = harness.pod()
    assert pod is not None
    assert asks_for_gpus(pod)
    assert pod.metadata.annotation(names.RECREATED_FROM) == harness.victim.metadata.uid
    assert pod.metadata.annotation(names.KUBELET_REJECTIONS) == "1"
    assert harness.recorder.reasons == [event_reasons.REJECTED_BY_KUBELET, event_reasons.REJECTED_BY_KUBELET]


def test_law_l4_a_user_who_deletes_a_refused_pod_wins(harness: Harness) -> None:
    harness.status("p", {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: full"})
    eventually(lambda: harness.evictor.reconcile(frozenset()) or harness.recorder.reasons, deadline=PATIENCE)
    harness.kube.delete(PODS, "p", namespace=harness.namespace)
    eventually(lambda: harness.settles() and harness.pod() is None, deadline=PATIENCE)


def test_an_overridden_budget_protects_no_pod(harness: Harness) -> None:
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
    }
    harness.kube.create(BUDGETS, budget, namespace=harness.namespace)
    harness.evictor.evict(harness.victim, replace(why("evicted"), overrides_budget=True))
    eventually(harness.returned, deadline=PATIENCE)
    pod = harness.pod()
    assert pod is not None
    assert not asks_for_gpus(pod)


def test_several_budgets_protect_as_one_does_and_are_named(harness: Harness) -> None:
    for name in ("keep", "keep-too"):
        budget = {
            "metadata": {"name": name},
            "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "p"}}},
        }
        harness.kube.create(BUDGETS, budget, namespace=harness.namespace)
    for ask in (
        lambda: harness.evictor.ask(harness.victim),
        lambda: harness.evictor.evict(harness.victim, why("evicted")),
    ):
        with pytest.raises(ProtectedError) as caught:
            ask()
        assert [one.metadata.name for one in caught.value.budgets] == ["keep", "keep-too"]


def test_law_l4_a_user_who_deletes_the_victim_first_wins(harness: Harness) -> None:
    uid = harness.victim.metadata.uid
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
    }
    harness.kube.create(BUDGETS, budget, namespace=harness.namespace)
    with pytest.raises(ProtectedError, match="cannot be evicted now"):
        harness.evictor.evict(harness.victim, why("evicted"))
    assert harness.templates == 1
    harness.kube.delete(PODS, "p", namespace=harness.namespace, uid=uid)
    harness.evictor.evict(harness.victim, why("evicted"))
    eventually(harness.settles, deadline=PATIENCE)
    assert harness.pod() is None


def test_the_preparation_is_undone_when_the_pod_need_not_leave(harness: Harness) -> None:
    budget = {
        "metadata": {"name": "keep"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
    }
    harness.kube.create(BUDGETS, budget, namespace=harness.namespace)
    with pytest.raises(ProtectedError):
        harness.evictor.evict(harness.victim, why("evicted"))
    harness.evictor.withdraw(harness.victim.metadata.uid)
    now = harness.pod()
    assert now is not None
    assert (now.metadata.uid, now.metadata.finalizers) == (harness.victim.metadata.uid, None)
    assert harness.templates == 0


def test_a_victim_does_not_stay_in_a_namespace_that_is_deleted(harness: Harness) -> None:
    harness.evictor.evict(harness.victim, why("evicted"))
    harness.kube.delete(NAMESPACES, harness.namespace)
    eventually(lambda: harness.settles() and harness.pod() is None, deadline=PATIENCE)
