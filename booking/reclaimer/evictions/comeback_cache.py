"""What is known of comebacks: the pods and PodTemplates that carry our label, kept by two reflectors.

What we write ourselves is entered at once, so that nothing is written twice because a watch lags behind.
"""

import threading
from collections.abc import Callable, Sequence

from booking.reclaimer.evictions.comeback import Comeback, is_comeback, is_guarded, origin_of, victim_of
from cluster import names
from cluster.decide.ledger.resource_versions import is_older, version_is_older
from cluster.kube.resources import PodTemplate
from cluster.objects.pods import Pod

SELECTED = f"{names.COMEBACK}=true"
"""Label selector of both reflectors: pods in every phase, and PodTemplates."""


class ComebackCache:
    """Pods and templates of comebacks. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pods: dict[str, Pod] = {}
        self._templates: dict[str, PodTemplate] = {}
        self._forgotten: set[str] = set()
        """Uids of templates that are deleted, though a watch may still tell of them."""
        self._watchers: list[Callable[[], None]] = []
        self.pods = ComebackPods(self)
        """The handler of the reflector of pods."""
        self.templates = Templates(self)
        """The handler of the reflector of PodTemplates."""

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call this after each change that a reflector brings. It must not take long, and must not raise."""
        self._watchers.append(tell)

    # --- reading ---------------------------------------------------------------------------------------
    def victims(self) -> list[str]:
        """Uids of all pods, there or gone, of whose comeback something is left to be seen."""
        with self._lock:
            of_pods = {self._origin(pod) or uid for uid, pod in self._pods.items()}
            return sorted(of_pods | set(self._templates))

    def comeback(self, uid: str, *, wanted: bool) -> Comeback:
        """What is known of the comeback of the pod with this uid."""
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
        """Whether the pod with this uid is in sight: the watch will say when it changes."""
        with self._lock:
            return uid in self._pods

    def template(self, uid: str) -> PodTemplate | None:
        """The template that was made from the pod with this uid."""
        with self._lock:
            return self._templates.get(uid)

    def _origin(self, pod: Pod) -> str | None:
        """In whose place it stands; None as well for one that is about to leave itself (own template)."""
        return None if pod.metadata.uid in self._templates else origin_of(pod)

    # --- writing ---------------------------------------------------------------------------------------
    def put_pod(self, pod: Pod) -> None:
        """A pod in a state that may be new."""
        with self._lock:
            known = self._pods.get(pod.metadata.uid)
            if known is None or not is_older(pod.metadata, known.metadata):
                self._pods[pod.metadata.uid] = pod

    def wrote_pod(self, pod: Pod) -> None:
        """A pod as one of our own writes, or reads, found it.

        One without our finalizer may have vanished meanwhile, and the watch have said so already: it is not
        taken in again.
        """
        with self._lock:
            if is_guarded(pod) or pod.metadata.uid in self._pods:
                self.put_pod(pod)

    def drop_pod(self, uid: str) -> None:
        """A pod is gone, or no longer ours to look at."""
        with self._lock:
            self._pods.pop(uid, None)

    def put_template(self, template: PodTemplate) -> None:
        """A template in a state that may be new."""
        with self._lock:
            uid = victim_of(template)
            known = self._templates.get(uid)
            if template.metadata.uid in self._forgotten or not is_comeback(template):
                return
            if known is None or not is_older(template.metadata, known.metadata):
                self._templates[uid] = template

    def drop_template(self, template: PodTemplate) -> None:
        """A template has been deleted; a watch that lags behind does not bring it back."""
        with self._lock:
            self._templates.pop(victim_of(template), None)
            self._forgotten.add(template.metadata.uid)

    def told(self) -> None:
        """A reflector has brought something."""
        for tell in self._watchers:
            tell()

    def replace_pods(self, items: Sequence[Pod], version: str) -> None:
        """All pods as of this version; what was written by ourselves since then is newer, and stays."""
        with self._lock:
            newer = [
                pod
                for pod in self._pods.values()
                if is_guarded(pod) and version_is_older(version, pod.metadata.resource_version)
            ]
            self._pods = {pod.metadata.uid: pod for pod in newer}
            for pod in items:
                self.put_pod(pod)

    def replace_templates(self, items: Sequence[PodTemplate], version: str) -> None:
        """All templates as of this version; what was written by ourselves since then is newer, and stays."""
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
        """The watch has come to the end of a template."""
        with self._lock:
            known = self._templates.get(victim_of(template))
            if known and known.metadata.uid == template.metadata.uid:
                del self._templates[victim_of(template)]
            self._forgotten.discard(template.metadata.uid)


def _is_in_place(pod: Pod, template: PodTemplate | None) -> bool:
    """Whether the pod stands where the template's is to stand: who may write on a pod can say anything."""
    if template is None:
        return True
    there = (template.metadata.namespace, template.template["metadata"]["name"])
    return (pod.metadata.namespace, pod.metadata.name) == there


class ComebackPods:
    """What happens to victims and returning pods."""

    def __init__(self, seen: ComebackCache) -> None:
        self._seen = seen

    def replace(self, items: Sequence[Pod], version: str, /) -> None:
        """All of them."""
        self._seen.replace_pods(items, version)
        self._seen.told()

    def upsert(self, pod: Pod, /) -> None:
        """One is new or has changed."""
        self._seen.put_pod(pod)
        self._seen.told()

    def remove(self, pod: Pod, /) -> None:
        """One is gone, or its comeback is over."""
        self._seen.drop_pod(pod.metadata.uid)
        self._seen.told()


class Templates:
    """What happens to templates."""

    def __init__(self, seen: ComebackCache) -> None:
        self._seen = seen

    def replace(self, items: Sequence[PodTemplate], version: str, /) -> None:
        """All of them."""
        self._seen.replace_templates(items, version)
        self._seen.told()

    def upsert(self, template: PodTemplate, /) -> None:
        """One is new or has changed."""
        self._seen.put_template(template)
        self._seen.told()

    def remove(self, template: PodTemplate, /) -> None:
        """One is gone."""
        self._seen.template_is_gone(template)
        self._seen.told()
