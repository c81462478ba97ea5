"""What the parts of the contract stand on: the fixtures that a server gives, and short words for calls."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
import pytest

from cluster.kube.errors import NotFound
from cluster.kube.interface import Kube, Selection, WatchEvent, WatchOptions
from cluster.kube.resources import DISRUPTION_BUDGETS, PODS, Resource
from cluster.objects.meta import Meta, Partial
from cluster.objects.pods import Pod

OTHERS = {"uid": "11111111-2222-3333-4444-555555555555", "resourceVersion": "1"}
"""What another object of the same name would have."""
IMPORTANT = "important-"
"""What the names of the contract's PriorityClasses begin with: they have no namespace that goes with them."""
GATES = [{"name": "example.com/not-yet"}]


class CountingMeta(Meta, frozen=True):
    """Metadata with the one field that no part of ours reads."""

    generation: int | None = None


class Counted(Partial, frozen=True):
    """Any object, for its generation."""

    metadata: CountingMeta = CountingMeta()


def counted(resource: Resource[Any]) -> Resource[Counted]:
    """The same kind, read for its generation."""
    return Resource(
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        kind=resource.kind,
        namespaced=resource.namespaced,
        type=Counted,
    )


class PriorityClass(Partial, frozen=True):
    """A scheduling.k8s.io/v1 PriorityClass."""

    metadata: Meta = Meta()
    value: int = msgspec.field(default=0)


PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    kind="PriorityClass",
    namespaced=False,
    type=PriorityClass,
)


def pod_body(name: str, *, spec: Mapping[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod that no scheduler takes, and into which no admission mounts a token."""
    container = {"name": "main", "image": "example.invalid/none"}
    own = {"schedulerName": "nobody", "automountServiceAccountToken": False, "containers": [container]}
    return {"metadata": {"name": name, **metadata}, "spec": {**own, **(spec or {})}}


def template_body(name: str, **metadata: Any) -> dict[str, Any]:
    """A PodTemplate."""
    pod = pod_body("")
    return {"metadata": {"name": name, **metadata}, "template": {"spec": pod["spec"]}}


class KubeGround:
    """One server, one namespace that is empty, and one pod on request."""

    @pytest.fixture
    def kube(self) -> Kube:
        raise NotImplementedError

    @pytest.fixture
    def namespace(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def pod(self, kube: Kube, namespace: str) -> Pod:
        return kube.create(PODS, pod_body("a"), namespace=namespace)

    def protect(self, kube: Kube, pod: Pod, *, name: str = "guard") -> None:
        """Let a PodDisruptionBudget stand before the pod."""
        meta = pod.metadata
        kube.patch(PODS, meta.name, {"metadata": {"labels": {"guarded": "yes"}}}, namespace=meta.namespace)
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"guarded": "yes"}}}
        body = {"metadata": {"name": name}, "spec": spec}
        kube.create(DISRUPTION_BUDGETS, body, namespace=meta.namespace)

    def pass_a_minute(self, kube: Kube) -> None:
        """Let the server send its bookmarks, if it does not do so by itself soon enough."""

    def forget_history(self, kube: Kube) -> None:
        """Let the server forget what was before now."""
        raise NotImplementedError

    # --- short words -----------------------------------------------------------------------------------

    def bind(self, kube: Kube, pod: Pod, **metadata: Any) -> Pod:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": "nowhere"}}
        kube.create_subresource(PODS, "binding", body, name=name, namespace=namespace)
        return kube.get(PODS, name, namespace=namespace)

    def report(self, kube: Kube, pod: Pod, **status: Any) -> Pod:
        """Write a pod's status, as its kubelet does."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        return kube.patch(PODS, name, {"status": status}, namespace=namespace, subresource="status")

    def evict(self, kube: Kube, pod: Pod, *, dry_run: bool = False, **options: Any) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"gracePeriodSeconds": 30, **options},
        }
        kube.create_subresource(PODS, "eviction", body, name=name, namespace=namespace, dry_run=dry_run)

    def annotate(self, kube: Kube, pod: Pod, **annotations: str | None) -> Pod:
        patch = {"metadata": {"annotations": annotations}}
        return kube.patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace)

    def now(self, kube: Kube, pod: Pod) -> Pod:
        return kube.get(PODS, pod.metadata.name, namespace=pod.metadata.namespace)

    def is_gone(self, kube: Kube, pod: Pod) -> bool:
        try:
            self.now(kube, pod)
        except NotFound:
            return True
        return False

    def names(self, kube: Kube, namespace: str, **selection: str) -> list[str]:
        page = kube.list(PODS, Selection(namespace=namespace, **selection))
        return [pod.metadata.name for pod in page.items]

    def changes(
        self, kube: Kube, selection: Selection, options: WatchOptions, count: int
    ) -> list[WatchEvent[Pod]]:
        """The first so many events of a watch."""
        watch = kube.watch(PODS, selection, options)
        try:
            events: Iterator[WatchEvent[Pod]] = iter(watch)
            return list(islice(events, count))
        finally:
            watch.close()
