"""The cache of comebacks: the pods and PodTemplates with our label, kept by two reflectors.

Our own writes are entered at once: otherwise a lagging watch would make us write twice.
"""

import threading
from collections.abc import Callable, Sequence

from booking.controller.reclaimer.evictions.comeback import (
    Comeback,
    has_our_finalizer,
    is_comeback,
    origin_of,
    victim_of,
)
from cluster import names
from cluster.decide.ledger.resource_versions import is_older, version_is_older
from cluster.kube.resources import PodTemplate
from cluster.objects.pods import Pod

SELECTED = f"{names.COMEBACK}=true"
"""Label selector of both reflectors: pods in every phase, and PodTemplates."""


class ComebackCache:
    """Pods and templates of comebacks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pods: dict[str, Pod] = {}
        self._templates: dict[str, PodTemplate] = {}
        self._forgotten: set[str] = set()
        """Uids of deleted templates, of which a lagging watch may still report changes."""
        self._watchers: list[Callable[[], None]] = []
        self.pods = ComebackPods(self)
        """The handler of the reflector of pods."""
        self.templates = Templates(self)
        """The handler of the reflector of PodTemplates."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each change from a reflector. It must return soon and must not raise."""
        self._watchers.append(callback)

    # --- reading ---------------------------------------------------------------------------------------
    def victims(self) -> list[str]:
        """Uids of all pods, existing or gone, with an object of their comeback in the cache."""
        with self._lock:
            of_pods = {self._origin(pod) or uid for uid, pod in self._pods.items()}
            return sorted(of_pods | set(self._templates))

    def comeback(self, uid: str, *, wanted: bool) -> Comeback:
        """The comeback of the pod with this uid, as cached."""
        with self._lock:
            victim, template = self._pods.get(uid), self._templates.get(uid)
            returning = (
                pod for pod in self._pods.values() if self._origin(pod) == uid and _is_in_place(pod, template)
            )
            return Comeback(
                template=template,
                victim=None if victim and self._origin(victim) else victim,
                returning=next(returning, None),
                wanted=wanted,
            )

    def knows(self, uid: str) -> bool:
        """Whether the pod with this uid is cached, so the watch will report its changes."""
        with self._lock:
            return uid in self._pods

    def template(self, uid: str) -> PodTemplate | None:
        """The template that was made from the pod with this uid."""
        with self._lock:
            return self._templates.get(uid)

    def _origin(self, pod: Pod) -> str | None:
        """Uid of the pod that it replaces; None also for a pod with its own template, which leaves itself."""
        return None if pod.metadata.uid in self._templates else origin_of(pod)

    # --- writing ---------------------------------------------------------------------------------------
    def put_pod(self, pod: Pod) -> None:
        """Add a pod, or update it if this state is newer."""
        with self._lock:
            known = self._pods.get(pod.metadata.uid)
            if known is None or not is_older(pod.metadata, known.metadata):
                self._pods[pod.metadata.uid] = pod

    def wrote_pod(self, pod: Pod) -> None:
        """Update a pod with the result of one of our own writes or reads.

        A pod without our finalizer may be gone by now, and the watch may have reported that already: it is
        not added again.
        """
        with self._lock:
            if has_our_finalizer(pod) or pod.metadata.uid in self._pods:
                self.put_pod(pod)

    def drop_pod(self, uid: str) -> None:
        """Remove a pod that is gone, or has lost our label."""
        with self._lock:
            self._pods.pop(uid, None)

    def put_template(self, template: PodTemplate) -> None:
        """Add a template, or update it if this state is newer."""
        with self._lock:
            uid = victim_of(template)
            known = self._templates.get(uid)
            if template.metadata.uid in self._forgotten or not is_comeback(template):
                return
            if known is None or not is_older(template.metadata, known.metadata):
                self._templates[uid] = template

    def drop_template(self, template: PodTemplate) -> None:
        """Remove a deleted template; a lagging watch does not bring it back."""
        with self._lock:
            self._templates.pop(victim_of(template), None)
            self._forgotten.add(template.metadata.uid)

    def notify(self) -> None:
        """Notify the callbacks that a reflector has brought a change."""
        for callback in self._watchers:
            callback()

    def replace_pods(self, items: Sequence[Pod], version: str) -> None:
        """Replace all pods as of this version; our own later writes are newer, and stay."""
        with self._lock:
            newer = [
                pod
                for pod in self._pods.values()
                if has_our_finalizer(pod) and version_is_older(version, pod.metadata.resource_version)
            ]
            self._pods = {pod.metadata.uid: pod for pod in newer}
            for pod in items:
                self.put_pod(pod)

    def replace_templates(self, items: Sequence[PodTemplate], version: str) -> None:
        """Replace all templates as of this version; our own later writes are newer, and stay."""
        with self._lock:
            newer = [
                template
                for template in self._templates.values()
                if version_is_older(version, template.metadata.resource_version)
            ]
            self._forgotten &= {template.metadata.uid for template in items}
            self._templates = {victim_of(template): template for template in newer}
            for template in items:
                self.put_template(template)

    def template_is_gone(self, template: PodTemplate) -> None:
        """The watch has reported the deletion of a template."""
        with self._lock:
            known = self._templates.get(victim_of(template))
            if known and known.metadata.uid == template.metadata.uid:
                del self._templates[victim_of(template)]
            self._forgotten.discard(template.metadata.uid)


def _is_in_place(pod: Pod, template: PodTemplate | None) -> bool:
    """Whether the pod has the template's name and namespace: its annotation alone could be forged."""
    if template is None:
        return True
    there = (template.metadata.namespace, template.template["metadata"]["name"])
    return (pod.metadata.namespace, pod.metadata.name) == there


class ComebackPods:
    """The reflector's handler for victims and returning pods."""

    def __init__(self, seen: ComebackCache) -> None:
        self._seen = seen

    def replace(self, items: Sequence[Pod], version: str, /) -> None:
        """Replace all pods."""
        self._seen.replace_pods(items, version)
        self._seen.notify()

    def upsert(self, pod: Pod, /) -> None:
        """Store a new or changed pod."""
        self._seen.put_pod(pod)
        self._seen.notify()

    def remove(self, pod: Pod, /) -> None:
        """Remove a pod that is gone, or whose comeback is over."""
        self._seen.drop_pod(pod.metadata.uid)
        self._seen.notify()


class Templates:
    """The reflector's handler for PodTemplates."""

    def __init__(self, seen: ComebackCache) -> None:
        self._seen = seen

    def replace(self, items: Sequence[PodTemplate], version: str, /) -> None:
        """Replace all templates."""
        self._seen.replace_templates(items, version)
        self._seen.notify()

    def upsert(self, template: PodTemplate, /) -> None:
        """Store a new or changed template."""
        self._seen.put_template(template)
        self._seen.notify()

    def remove(self, template: PodTemplate, /) -> None:
        """Remove a template that is gone."""
        self._seen.template_is_gone(template)
        self._seen.notify()
