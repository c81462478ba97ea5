"""A cluster with the real evictor, in which pods really leave and come back."""

from booking.controller.reclaimer.evictions.pod_evictor import PodEvictor
from booking.controller.reclaimer.evictor import Evictor
from cluster import names
from cluster.kube.interface import Selection
from cluster.kube.resources import POD_TEMPLATES, PODS
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster


class Recorder:
    """Records the Events that are written."""

    def __init__(self, recorded: list[tuple[str, str, str]]) -> None:
        self._recorded = recorded

    def normal(self, about: Pod, reason: str, message: str, /) -> None:
        """Something went as it should."""
        self._recorded.append((about.metadata.name, reason, message))

    def warning(self, about: Pod, reason: str, message: str, /) -> None:
        """Something is wrong."""
        self._recorded.append((about.metadata.name, reason, message))


class Chain(FakeCluster):
    """A cluster in which pods really leave and come back."""

    def restart(self) -> None:
        """Another process takes over."""
        self.recorded: list[tuple[str, str, str]] = []
        """Name, reason and sentence of every Event about leaving and coming back."""
        self.pod_evictor = PodEvictor(self.api(), self.clock, Recorder(self.recorded), executor=self.executor)
        super().restart()

    def evictor_in_use(self) -> Evictor:
        """The real ones."""
        return self.pod_evictor

    def sync(self) -> None:
        """Let both caches catch up."""
        super().sync()
        ours = Selection(label_selector=f"{names.COMEBACK}=true")
        pods = self.kube.list(PODS, ours)
        templates = self.kube.list(POD_TEMPLATES, ours)
        self.pod_evictor.seen.pods.replace(pods.items, pods.resource_version)
        self.pod_evictor.seen.templates.replace(templates.items, templates.resource_version)

    def end(self, name: str) -> None:
        """The kubelet has ended a terminating pod."""
        self.kube.finish(PODS, name, namespace="default")
