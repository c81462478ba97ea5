"""A cache of this node's pods from our own watch, which also keeps pods that are gone for a while.

The kubelet admits a pod even if it was deleted meanwhile, and asks for its devices, when the API server no
longer has it.

Source: kubelet 1.36.4 (HandlePodAdditions): pods are admitted in the order of their Bindings, which is that
of a watch. So when this cache has the pod that is being admitted, it has the ends of earlier ones, too.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from cluster import names
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

TOMBSTONE_SECONDS: Final = 120.0
"""Seconds for which the last state of a pod that is gone is kept."""


class BoundPods:
    """A handler of ``cluster.kube.reflector``, read by the threads that serve the kubelet's calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] = {}
        self._tombstones: dict[str, tuple[float, Pod]] = {}
        self._bound_at: dict[str, int] = {}
        """Revision of each pod's Binding; 0 for a pod that was first seen in a list, which does not tell."""
        self._synced = False

    @property
    def is_synced(self) -> bool:
        """Whether the watch has delivered its first full list."""
        return self._synced

    @property
    def present(self) -> tuple[Pod, ...]:
        """The pods that exist."""
        with self._lock:
            return tuple(self._pods.values())

    @property
    def gone(self) -> tuple[Pod, ...]:
        """The last states of the pods that existed a short time ago."""
        with self._lock:
            self._forget()
            return tuple(pod for _, pod in self._tombstones.values())

    def by_uid(self) -> Mapping[str, Pod]:
        """The kubelet's uid -> pod, for all pods, present and gone."""
        return {pod.metadata.uid: pod for pod in (*self.gone, *self.present)}

    def bindings(self) -> Mapping[str, tuple[int, int]]:
        """The kubelet's uid -> the first and the last revision at which the pod may have been bound."""
        found: dict[str, tuple[int, int]] = {}
        for uid, pod in self.by_uid().items():
            exact = self._bound_at.get(uid, 0)
            if latest := exact or _version(pod):
                found[uid] = (exact, latest)
        return found

    def learn(self, read: Callable[[], Iterable[Pod]]) -> None:
        """List all pods apart from the watch, which may be behind. Raises what ``read`` raises."""
        before = frozenset(self._pods)
        pods = {pod.metadata.uid: pod for pod in map(as_the_kubelet_knows_it, read())}
        with self._lock:
            # A pod that the watch has delivered meanwhile may be newer than the list.
            for uid in before & self._pods.keys() - pods.keys():
                self._add_tombstone(self._pods[uid])
            for pod in pods.values():
                self._put(pod)

    # --- the handler ------------------------------------------------------------------------------------

    def replace(self, items: Sequence[Pod], version: str, /) -> None:
        """A full list; a pod that is not in it is gone."""
        del version
        pods = {pod.metadata.uid: pod for pod in map(as_the_kubelet_knows_it, items)}
        with self._lock:
            for uid in self._pods.keys() - pods.keys():
                self._add_tombstone(self._pods[uid])
            for pod in pods.values():
                self._put(pod)
                self._bound_at.setdefault(pod.metadata.uid, 0)
            self._synced = True

    def upsert(self, pod: Pod, /) -> None:
        """A pod is new or has changed. What a watch of one node's pods shows first of each is its Binding."""
        known = as_the_kubelet_knows_it(pod)
        with self._lock:
            self._put(known)
            # A static pod is not bound: the kubelet has it before there is a mirror of it.
            self._bound_at.setdefault(known.metadata.uid, _version(pod) if known is pod else 0)

    def remove(self, pod: Pod, /) -> None:
        """A pod is gone; this was its last state."""
        with self._lock:
            self._add_tombstone(as_the_kubelet_knows_it(pod))

    # --- inside -----------------------------------------------------------------------------------------

    def _put(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        known = self._pods.get(uid)
        if self._is_dead(pod) or (known is not None and _version(pod) < _version(known)):
            return
        self._tombstones.pop(uid, None)
        self._pods[uid] = pod

    def _is_dead(self, pod: Pod) -> bool:
        """Whether its end was seen. A static pod outlives its mirror: the kubelet creates another mirror."""
        _, gone = self._tombstones.get(pod.metadata.uid, (0.0, None))
        if gone is None:
            return False
        return names.STATIC_POD not in (pod.metadata.annotations or {}) or _version(pod) <= _version(gone)

    def _add_tombstone(self, pod: Pod) -> None:
        self._pods.pop(pod.metadata.uid, None)
        self._tombstones[pod.metadata.uid] = (self._clock.monotonic(), pod)
        self._forget()

    def _forget(self) -> None:
        oldest = self._clock.monotonic() - TOMBSTONE_SECONDS
        kept = {uid: (at, pod) for uid, (at, pod) in self._tombstones.items() if at >= oldest}
        for uid in self._tombstones.keys() - kept.keys():
            self._bound_at.pop(uid, None)
        self._tombstones = kept


def as_the_kubelet_knows_it(pod: Pod) -> Pod:
    """The pod; a static pod's mirror, which has another uid in the API server, gets the static pod's uid."""
    uid = pod.metadata.annotation(names.STATIC_POD)
    if uid is None:
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid))


def _version(pod: Pod) -> int:
    text = pod.metadata.resource_version
    return int(text) if text.isascii() and text.isdecimal() else 0
