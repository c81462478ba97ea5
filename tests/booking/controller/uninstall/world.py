"""A cluster in memory with the product in it: what a test adds, and what kubelets and others do."""

import threading
from collections.abc import Callable
from typing import Any

from booking.controller.reclaimer.evictions.comeback import has_our_finalizer
from booking.controller.settings import UninstallSettings
from booking.controller.uninstall.__main__ import uninstall
from booking.controller.uninstall.kinds import CAPACITIES, DAEMON_SETS, DEPLOYMENTS, POLICY_BINDINGS
from cluster import names
from cluster.fake import FakeClock, FakeKube
from cluster.kube.interface import Selection
from cluster.kube.resources import LEASES, MUTATING_WEBHOOKS, NODES, POD_TEMPLATES, PODS, SECRETS
from cluster.objects.pods import Pod, is_terminating

TEAM = "team"
OTHERS = "example.org/keep"
WORKLOADS = {
    "controller": (DEPLOYMENTS, names.CONTROLLER),
    "extender": (DEPLOYMENTS, names.SCHEDULER_ACCOUNT),
    "server": (DEPLOYMENTS, names.BOOKING_SERVER),
    "node-agent": (DAEMON_SETS, names.NODE_AGENT),
}
PASSERS_BY = {"GET", "LIST", "WATCH"}


class Passing(FakeClock):
    """A clock on which the rest of the cluster acts at each wait."""

    def __init__(self) -> None:
        super().__init__(self_advancing=True)
        self.meanwhile: Callable[[], None] = lambda: None

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait in virtual time."""
        self.meanwhile()
        return super().wait(event, seconds)


class World:
    """The product as the chart installs it; a test adds pods."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Passing()
        self.clock.meanwhile = self.others_act
        self.kube = FakeKube(self.clock)
        self.settings = UninstallSettings(**settings)
        self.reports: list[str] = []
        self.kubelets_work = True
        for part, (resource, name) in WORKLOADS.items():
            self.kube.put(resource, {"metadata": {"name": name, "namespace": names.NAMESPACE}})
            self.put_our_pod(part)
        for name in (names.WEBHOOK, names.LAST_WEBHOOK):
            self.kube.put(MUTATING_WEBHOOKS, {"metadata": {"name": name}})
        self.kube.put(POLICY_BINDINGS, {"metadata": {"name": names.GPU_PODS_POLICY}})
        for resource, name in ((SECRETS, names.WEBHOOK_KEYS), (CAPACITIES, names.REQUEUE_TRIGGER)):
            self.kube.put(resource, {"metadata": {"name": name, "namespace": names.NAMESPACE}})
        self.put_node()

    # --- what there is ---------------------------------------------------------------------------------
    def put_our_pod(self, part: str) -> None:
        labels = {"app.kubernetes.io/name": names.PRODUCT, names.COMPONENT: part}
        metadata = {"name": part, "namespace": names.NAMESPACE, "labels": labels}
        self.kube.put(PODS, {"metadata": metadata, "spec": {"containers": [{"name": part}]}})

    def put_node(self) -> None:
        ours = {names.INVENTORY: "{}", names.DRIFT: "{}", names.BLOCKS: "[]", names.LABELS: "a.ours,b.ours"}
        labels = {"a.ours": "1", "b.ours": "2", OTHERS: "yes"}
        metadata = {"name": "n0", "annotations": ours | {OTHERS: "yes"}, "labels": labels}
        self.kube.put(NODES, {"metadata": metadata})

    def put_lease(self, name: str, holder: str | None = None) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15} if holder else {}
        metadata = {"name": name, "namespace": names.NAMESPACE}
        self.kube.put(LEASES, {"metadata": metadata, "spec": spec})

    # --- what happens ----------------------------------------------------------------------------------
    def others_act(self) -> None:
        """Pods of deleted workloads are deleted; kubelets end terminating pods."""
        for part, (resource, name) in WORKLOADS.items():
            if not self.is_there(resource, name, names.NAMESPACE) and self.is_there(
                PODS, part, names.NAMESPACE
            ):
                self.kube.finish(PODS, part, namespace=names.NAMESPACE)
        for pod in self.pods:
            if is_terminating(pod) and self.kubelets_work:
                self.kube.finish(PODS, pod.metadata.name, namespace=TEAM)

    def uninstall(self) -> bool:
        return uninstall(self.kube, self.clock, self.settings, report=self.reports.append)

    # --- what is there ---------------------------------------------------------------------------------
    def is_there(self, resource: Any, name: str, namespace: str | None = None) -> bool:
        try:
            self.kube.raw(resource, name, namespace=namespace)
        except KeyError:
            return False
        return True

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of users."""
        return self.kube.list(PODS, Selection(namespace=TEAM)).items

    @property
    def writes(self) -> list[str]:
        """The uninstaller's writes, and its deletions without effect."""
        return [f"{call.verb} {call.path}" for call in self.kube.calls if call.verb not in PASSERS_BY]

    def left(self) -> list[str]:
        """All our orders, gates, finalizers, labels and Leases that are left anywhere."""
        found = [f"PodTemplate {one.metadata.name}" for one in self.kube.list(POD_TEMPLATES).items]
        found += [f"Lease {one.metadata.name}" for one in self.kube.list(LEASES).items]
        found += [f"Node {key}" for one in self.kube.list(NODES).items for key in _ours(one.metadata)]
        orders = {
            names.COMEBACK,
            names.EVICT,
            names.NOTICE,
            names.WARNED,
            names.END_REQUESTED,
            names.COMEBACK_HOW,
        }
        orders |= {*names.WAITING_STATE, names.BOOKING}
        for pod in self.pods:
            found += [f"{pod.key} {key}" for key in _ours(pod.metadata) if key in orders]
            found += [f"{pod.key} finalizer"] * has_our_finalizer(pod)
        named = [(name, MUTATING_WEBHOOKS, None) for name in (names.WEBHOOK, names.LAST_WEBHOOK)]
        named += [(names.GPU_PODS_POLICY, POLICY_BINDINGS, None)]
        named += [(name, resource, names.NAMESPACE) for resource, name in WORKLOADS.values()]
        named += [
            (names.WEBHOOK_KEYS, SECRETS, names.NAMESPACE),
            (names.REQUEUE_TRIGGER, CAPACITIES, names.NAMESPACE),
        ]
        return found + [name for name, resource, where in named if self.is_there(resource, name, where)]


def _ours(meta: Any) -> list[str]:
    keys = [*(meta.annotations or {}), *(meta.labels or {})]
    return [key for key in keys if names.is_ours(key)]
