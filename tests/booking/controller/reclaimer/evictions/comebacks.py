"""A world in which pods are evicted and come back: API server, kubelet, and a process that may be killed."""

from collections.abc import Callable, Mapping
from typing import Any

from booking.controller.reclaimer.evictions.comeback_cache import SELECTED
from booking.controller.reclaimer.evictions.pod_evictor import PodEvictor
from booking.controller.reclaimer.evictor import Back, EvictionCause, ProtectedError, Reason
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Selection
from cluster.kube.resources import FAILED_PODS, POD_TEMPLATES, PODS, Resource, T
from cluster.objects.jobs import Job
from cluster.objects.pods import Pod, is_live, is_terminating

NAMESPACE = "team"
FAILED = f"status.phase=Failed,spec.schedulerName={names.SCHEDULER_NAME}"
ENOUGH = 12
"""Number of rounds after which nothing changes."""


class Killed(BaseException):
    """The process is dead."""


class Mortal(FakeKube):
    """An API server whose client dies, or whose user acts, right after its k-th call has been done."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.ours = 0
        self.dies_after: int | None = None
        self.then: dict[int, Callable[[], object]] = {}
        self._busy = False

    def get(
        self, resource: Resource[T], name: str, *, namespace: str | None = None, within: float | None = None
    ) -> T:
        try:
            return super().get(resource, name, namespace=namespace, within=within)
        finally:
            self._done()

    def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> T:
        made = super().create(resource, body, namespace=namespace, dry_run=dry_run)
        self._done()
        return made

    def create_subresource(
        self,
        resource: Resource[T],
        subresource: str,
        body: Mapping[str, Any],
        *,
        name: str,
        namespace: str | None = None,
        within: float | None = None,
        answered: float | None = None,
        dry_run: bool = False,
    ) -> None:
        super().create_subresource(
            resource,
            subresource,
            body,
            name=name,
            namespace=namespace,
            within=within,
            answered=answered,
            dry_run=dry_run,
        )
        self._done()

    def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> T:
        after = super().patch(resource, name, body, namespace=namespace, subresource=subresource)
        self._done()
        return after

    def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        super().delete(
            resource,
            name,
            namespace=namespace,
            uid=uid,
            resource_version=resource_version,
            grace_seconds=grace_seconds,
        )
        self._done()

    def _done(self) -> None:
        if self._busy:
            return
        self.ours += 1
        if self.ours in self.then:
            self.as_somebody_else(self.then[self.ours])
        if self.ours == self.dies_after:
            raise Killed

    def as_somebody_else(self, act: Callable[[], object]) -> None:
        """Calls that are not ours."""
        self._busy = True
        try:
            act()
        finally:
            self._busy = False


class FakeRecorder:
    """The Events that were written."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def normal(self, about: Pod, reason: str, message: str) -> None:
        self.events.append((about.metadata.name, reason, message))

    def warning(self, about: Pod, reason: str, message: str) -> None:
        self.events.append((about.metadata.name, reason, message))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]


REFUSED: dict[str, Any] = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Pod was rejected: Allocate failed due to no healthy devices present, which is unexpected",
}
"""The whole status of a pod that a kubelet has refused."""


def refused_pod(name: str = "p", **metadata: Any) -> dict[str, Any]:
    """A bare pod of Bob's that the kubelet has refused."""
    return {**gpu_pod(name, **metadata), "status": REFUSED}


def gpu_pod(name: str = "p", *, node: str | None = "n0", **metadata: Any) -> dict[str, Any]:
    """A bare pod of Bob's that runs with a GPU."""
    limits = {names.GPU_RESOURCE: "1", "cpu": "1"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits, "requests": limits}}
    spec: dict[str, Any] = {
        "containers": [container],
        "schedulerName": names.SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 60,
    }
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": {names.USER: "bob", names.ASSIGNED: '{"main": ["GPU-n0-0"]}'},
            **metadata,
        },
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


class World:
    """One victim."""

    def __init__(
        self,
        reason: Reason = "evicted",
        *,
        back: Back = "without-gpu",
        overrides_budget: bool = False,
        notice: str | None = None,
        **pod: Any,
    ) -> None:
        self.clock = FakeClock(self_advancing=True)
        self.kube = Mortal(self.clock)
        self.why = EvictionCause(
            reason=reason,
            message="A booked pod needs the GPU.",
            grace_seconds=20,
            back=back,
            notice=notice,
            overrides_budget=overrides_budget,
        )
        self.recorder = FakeRecorder()
        self.jobs: dict[str, Job] = {}
        self.evictor = self.process()
        self.victim = self.kube.put(PODS, (refused_pod if reason == "refused" else gpu_pod)(**pod))
        self.wanted = True
        self.kubelet_works = True

    def process(self) -> PodEvictor:
        """A process that knows nothing yet."""
        return PodEvictor(self.kube, self.clock, self.recorder, jobs=lambda: self.jobs)

    def restart(self) -> None:
        self.kube.dies_after = None
        self.evictor = self.process()

    # --- one round -------------------------------------------------------------------------------------
    def sync(self, *, pods: bool = True, templates: bool = True) -> None:
        """Let the watches catch up."""
        selection = Selection(label_selector=SELECTED)
        if pods:
            page = self.kube.list(PODS, selection)
            self.evictor.seen.pods.replace(page.items, page.resource_version)
            failed = self.kube.list(FAILED_PODS, Selection(field_selector=FAILED))
            self.evictor.failed.replace(failed.items, failed.resource_version)
        if templates:
            of_templates = self.kube.list(POD_TEMPLATES, selection)
            self.evictor.seen.templates.replace(of_templates.items, of_templates.resource_version)

    def pod(self, name: str = "p") -> Pod | None:
        """The pod that has the name now; read by a call that is not ours."""
        page = self.kube.list(PODS, Selection(namespace=NAMESPACE, field_selector=f"metadata.name={name}"))
        return next(iter(page.items), None)

    def pass_(self) -> None:
        """What the reclaimer does in one pass."""
        now = self.pod()
        uid = self.victim.metadata.uid
        makes_sense = self.wanted and self.why.reason != "refused"  # the rejected pods that it finds itself
        wanted = makes_sense and now is not None and now.metadata.uid == uid and is_live(now)
        self.evictor.reconcile(frozenset({uid} if wanted else ()))
        if wanted and now is not None:
            self.evictor.evict(now, self.why)

    def kubelet(self) -> None:
        """Let terminating pods end."""
        for pod in self.kube.list(PODS).items:
            if is_terminating(pod) and self.kubelet_works:
                self.kube.finish(PODS, pod.metadata.name, namespace=NAMESPACE)

    def round(self, *, pods: bool = True, templates: bool = True) -> None:
        """One pass, then the kubelet; a killed process is restarted and lists pods and templates once."""
        try:
            self.sync(pods=pods, templates=templates)
            self.pass_()
        except Killed:
            self.restart()
            self.sync()
        except (ApiError, ProtectedError):
            pass
        self.kubelet()
        self.clock.advance(60)

    def play(self) -> None:
        for _ in range(ENOUGH):
            self.round()

    # --- others ----------------------------------------------------------------------------------------
    def user_deletes(self) -> bool:
        """The user deletes the pod of this name; whether that means that it must not come back."""
        now = self.pod()
        if now is None:
            return False
        try:
            self.kube.delete(PODS, "p", namespace=NAMESPACE)
        except NotFound:
            return False
        return not is_terminating(now)

    # --- what is there ---------------------------------------------------------------------------------
    @property
    def templates(self) -> int:
        return len(self.kube.list(POD_TEMPLATES).items)

    @property
    def calls(self) -> list[str]:
        """Our calls, without lists and watches: ``POST pods?dryRun=All``."""
        return [
            f"{call.verb} {call.path.partition(f'/{NAMESPACE}/')[2]}"
            for call in self.kube.calls
            if call.verb not in ("LIST", "WATCH")
        ]
