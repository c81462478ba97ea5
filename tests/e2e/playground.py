"""A playground on a real cluster: create pods, wait for what they become, compare what is said of them."""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from cluster import names
from cluster.kube.errors import ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import EVENTS, NODES, PODS
from cluster.objects.assignment import Assignment, assignment_of
from cluster.objects.inventory import Device, inventory_of
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, container_needs, is_terminal, is_terminating
from devcluster import probe
from devcluster.demo.pod_status import describe
from devcluster.wait import poll
from tests.laws.live import LiveWatch
from tests.patience import PATIENCE

V = TypeVar("V")
EVERY: Final = 0.05
SPAWNS: Final = 0.5
"""Seconds between two questions: of the client, and of a program such as kubectl."""
UNANSWERED: Final = (Unreachable, ServerError, TooManyRequests)
"""What an API server says, or does not say, that is away or busy for a moment."""
NAIVE = "example.com/naive"
"""A resource whose plugin trusts the kubelet (``actors/naive_plugin.py``): watched as well."""
HOSTNAME = "kubernetes.io/hostname"


GATED = "SchedulingGated"
UNSCHEDULABLE = "Unschedulable"
"""Reason of a pod's condition ``PodScheduled``: it fits nowhere."""
SCHEDULER_ERROR = "SchedulerError"
"""The scheduler could not ask its extender, or a bind has failed: it is tried again."""


def unscheduled_message(pod: Pod, reason: str) -> str | None:
    """The message of ``PodScheduled`` where it is false for this reason, else None."""
    wanted = ("PodScheduled", "False", reason)
    return next(
        (c.message for c in pod.status.conditions or () if (c.type, c.status, c.reason) == wanted), None
    )


class Playground:
    """One namespace of a running cluster.

    kube: the administrator's client; kubectl: the administrator's kubectl; laws: who watches the laws, and is
    asked at every turn of every wait.
    """

    def __init__(self, kube: Kube, kubectl: Callable[..., str], *, namespace: str, laws: LiveWatch) -> None:
        self.laws = laws
        self.kube = kube
        self.kubectl = kubectl
        self.namespace = namespace

    # --- doing ---------------------------------------------------------------------------------------
    def create(self, body: Mapping[str, Any]) -> str:
        """Create a pod; its name."""
        return self.kube.create(PODS, body, namespace=self.namespace).metadata.name

    def apply(self, body: Mapping[str, Any]) -> None:
        """Create any object by kubectl."""
        self.kubectl("create", "--namespace", self.namespace, "--filename", "-", given=json.dumps(body))

    def create_all(self, bodies: Iterable[Mapping[str, Any]]) -> list[str]:
        """Create pods at once, as a burst."""
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(self.create, bodies))

    def simple(self, name: str, *, gpus: int = 1, node: str | None = None, **options: Any) -> str:
        """Create a pod of one container."""
        extra = {"nodeSelector": {HOSTNAME: node}} if node else None
        return self.create(probe.pod(name, [probe.container("main", gpus=gpus)], extra=extra, **options))

    def delete(self, name: str, *, grace_seconds: int = 1) -> None:
        """Delete a pod. Never by force: the kubelet says when its devices are free."""
        self.kube.delete(PODS, name, namespace=self.namespace, grace_seconds=grace_seconds)

    def clear(self) -> None:
        """Delete every pod of the namespace and wait until none is left."""
        controllers = ("delete", "deployments,statefulsets,jobs", "--all", "--cascade=foreground")
        self.kubectl(*controllers, "--namespace", self.namespace)

        def is_empty() -> bool:
            with contextlib.suppress(*UNANSWERED):
                pods = self.pods()
                # Again and again: a pod that we took away a moment ago comes back after the first list.
                for pod in pods:
                    if not is_terminating(pod):
                        with contextlib.suppress(NotFound):
                            self.delete(pod.metadata.name)
                return not pods
            return False

        assert poll(is_empty, seconds=PATIENCE), self._all_described()

    def remove(self) -> None:
        """The same, and let the namespace go; it is gone when nothing differs any more (``Restoring``)."""
        self.clear()
        self.kubectl("delete", "namespace", self.namespace, "--ignore-not-found", "--wait=false")

    # --- seeing --------------------------------------------------------------------------------------
    def pod(self, name: str) -> Pod:
        """A pod as it is now."""
        return self.kube.get(PODS, name, namespace=self.namespace)

    def pods(self) -> list[Pod]:
        """All pods of the namespace."""
        return list(self.kube.list(PODS, Selection(namespace=self.namespace)).items)

    def node(self, name: str) -> Node:
        """A node as it is now."""
        return self.kube.get(NODES, name)

    def nodes(self) -> list[Node]:
        """All nodes."""
        return list(self.kube.list(NODES).items)

    def allocatable(self, node: str) -> int:
        """How many GPUs the kubelet advertises."""
        return int((self.node(node).status.allocatable or {}).get(names.GPU_RESOURCE, 0))

    def inventory(self) -> dict[str, tuple[str, Device]]:
        """UUID -> (node, device) of every published GPU."""
        return {d.uuid: (n.metadata.name, d) for n in self.nodes() for d in inventory_of(n)}

    # --- waiting -------------------------------------------------------------------------------------
    def await_that(
        self, what: str, condition: Callable[[], V | None], *, every: float = EVERY, seconds: float = PATIENCE
    ) -> V:
        """Wait for a condition; fail with the state of all pods, or at the moment when a law is broken.

        Where the API server does not answer for a moment, it is asked again. A condition that starts a
        program is asked less often: `every` SPAWNS seconds.
        """
        problem = "none"

        def ask() -> V | None:
            nonlocal problem
            self.laws.check()
            try:
                return condition()
            except UNANSWERED as error:
                problem = str(error)
                return None

        found = poll(ask, seconds=seconds, every=every)
        if found is None:
            message = f"Not within {seconds:.0f} s: {what} (the last trouble: {problem})."
            raise AssertionError("\n".join([message, *self._all_described()]))
        return found

    def await_phase(self, pods: Iterable[str], phase: str = "Running") -> None:
        """Wait until every one of these pods is in a phase."""
        wanted = set(pods)

        def reached() -> bool:
            now = {p.metadata.name: p for p in self.pods() if p.metadata.name in wanted}
            failed = [f"{n}: {describe(p)}" for n, p in now.items() if p.status.phase == "Failed" != phase]
            assert not failed, failed
            return len(now) == len(wanted) and all(p.status.phase == phase for p in now.values())

        self.await_that(f"{sorted(wanted)} are {phase}", reached)

    def await_bound(self, name: str) -> str:
        """Wait until a pod is bound; its node."""
        return self.await_that(f"{name} is bound", lambda: self.pod(name).spec.node_name)

    def await_waiting(self, name: str) -> str:
        """Wait until the scheduler has said that a pod fits nowhere, or waits behind a gate; the message."""

        def message() -> str | None:
            pod = self.pod(name)
            return unscheduled_message(pod, UNSCHEDULABLE) or unscheduled_message(pod, GATED)

        return self.await_that(f"{name} waits and says why", message)

    def await_scheduler_error(self, name: str) -> str:
        """Wait until the scheduler has tried to place a pod, and could not ask or bind; the message."""
        return self.await_that(
            f"the scheduler has failed with {name}",
            lambda: unscheduled_message(self.pod(name), SCHEDULER_ERROR),
        )

    def await_gpus(self, node: str, count: int) -> None:
        """Wait until the kubelet advertises so many GPUs."""
        self.await_that(f"{node} advertises {count} GPUs", lambda: self.allocatable(node) == count)

    def await_event(self, name: str, text: str) -> str:
        """Wait for an Event about a pod that contains a text; the whole sentence."""
        return self.await_that(
            f"an event of {name} says {text!r}", lambda: self._event(self.namespace, name, text)
        )

    def await_node_event(self, node: str, text: str) -> None:
        """Wait for an Event about a node that contains a text."""
        self.await_that(f"an event of {node} says {text!r}", lambda: self._event("default", node, text))

    def _event(self, namespace: str, about: str, text: str) -> str | None:
        """The message of an Event about an object that contains a text."""
        named = Selection(namespace=namespace, field_selector=f"involvedObject.name={about}")
        messages = (event.message or "" for event in self.kube.list(EVENTS, named).items)
        return next((message for message in messages if text in message), None)

    # --- comparing -----------------------------------------------------------------------------------
    def assignment(self, name: str) -> Assignment:
        """What the extender chose for a pod."""
        chosen = assignment_of(self.pod(name))
        assert chosen is not None, f"{name} carries no {names.ASSIGNED}"
        return chosen

    def kubelet_says(self, name: str) -> dict[str, frozenset[str]]:
        """Container -> devices that the kubelet recorded, by its checkpoint."""
        return self.laws.recorded(self.pod(name).metadata.uid)

    def await_recorded(self, name: str, containers: set[str]) -> dict[str, frozenset[str]]:
        """Wait until the kubelet has recorded devices for all of these containers."""
        if containers:
            self.await_that(
                f"the kubelet has recorded the devices of {name}",
                lambda: self.kubelet_says(name).keys() >= containers or None,
            )
        return self.kubelet_says(name)

    def check_agreement(self, name: str) -> None:
        """They are in the kubelet's checkpoint and in each container's environment and /dev."""
        chosen = self.assignment(name)
        pod = self.pod(name)
        apps = {need.name for need in container_needs(pod) if need.kind == "app"}
        recorded = self.await_recorded(name, apps)
        assert {c: frozenset(chosen[c]) for c in apps} == {c: recorded[c] for c in apps}, name
        for container, uuids in chosen.items():
            self.check_sight(name, container, uuids)

    def check_sight(self, name: str, container: str, uuids: Iterable[str]) -> None:
        """A container sees these devices and no others."""
        known = self.inventory()
        expected = tuple(sorted(uuids))
        seen = probe.read_sight(self.kubectl, namespace=self.namespace, name=name, container_name=container)
        assert seen is not None, f"{name}/{container} has said nothing"
        assert seen.uuids == expected, f"{name}/{container}"
        assert seen.gpu_minors == tuple(sorted(known[u][1].index for u in expected)), f"{name}/{container}"

    def check_law_1(self) -> None:
        """No device is held by two living pods (law L1); what the kubelet gave wins over what was chosen.

        Pods that share a device are judged by the watcher of the laws, which knows what each has of it.
        """
        holders: dict[str, set[str]] = {}
        for pod in self.pods():
            needs = container_needs(pod)
            is_sharing = bool(needs) and all(need.resource == names.SHARED_RESOURCE for need in needs)
            if is_terminal(pod) or not pod.spec.node_name or is_sharing:
                continue
            real = {**(assignment_of(pod) or {}), **self.kubelet_says(pod.metadata.name)}
            for uuid in {u for uuids in real.values() for u in uuids}:
                holders.setdefault(uuid, set()).add(pod.metadata.name)
        doubles = {u: [self._describe(name) for name in sorted(h)] for u, h in holders.items() if len(h) > 1}
        assert not doubles, doubles

    def _all_described(self) -> list[str]:
        """A line about every pod, for the message of a test that fails."""
        try:
            return [f"{p.metadata.name}: {describe(p)}" for p in self.pods()]
        except ApiError as error:
            return [f"The pods cannot be listed: {error}"]

    def _describe(self, name: str) -> str:
        pod = self.pod(name)
        return f"{name}: {describe(pod)}, chosen {assignment_of(pod)}, recorded {self.kubelet_says(name)}"
