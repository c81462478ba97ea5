"""The pods of this node while the kubelet waits: its own, or where it cannot say the API server's.

Used by ``allocator``. The kubelet's Pods API is silent while the first pods after a kubelet start are
admitted, may be flooded by other clients, and is off before Kubernetes 1.37: there our own watch of the
node's pods (``bound``) is asked, with the kubelet's list of accepted names.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from cluster.objects.pods import Pod
from deviceplugin.kubelet.bound_pods import BoundPods, as_the_kubelet_knows_it
from deviceplugin.kubelet.pod_resources import PodResourcesError
from deviceplugin.kubelet.pods_api import PodsApiError


class PodsApiReader(Protocol):
    """The port of ``podsapi.PodsApi``."""

    def list(self, *, patient: bool = True, gpus_only: bool = True) -> tuple[Pod, ...]:
        """The pods that the kubelet knows, all or those that may hold GPUs; raises PodsApiError."""
        ...

    def is_missing(self) -> bool:
        """Whether nobody tells them."""
        ...


class AcceptedNames(Protocol):
    """The port of ``podresources.PodResources``."""

    def names(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of the pods that the kubelet has accepted; raises PodResourcesError."""
        ...


class StoredPodsError(Exception):
    """The API server could not be asked for the pods of this node; a sentence."""


Names = frozenset[tuple[str, str]]
"""Namespace and name of each pod."""
StoredPods = Callable[[], tuple[Pod, ...]]
"""The pods of this node as the API server has them; raises StoredPodsError."""


@dataclass(frozen=True)
class PodsSnapshot:
    """The pods, and how they were had."""

    pods: tuple[Pod, ...] | None
    """None: not at all."""
    remembered: bool = False
    """They were had for an earlier container, perhaps of another pod."""
    from_watch: bool = False
    """By our own watch alone: which of them still live the kubelet may know better."""
    sentences: tuple[str, ...] = ()
    """What went wrong on the way."""
    replaced: frozenset[str] = frozenset()
    """Uids of pods that are gone from the API server, and whose name a later one has."""


class PodSource:
    """Asks the sources in their order. One admission at a time; ``at_once`` and ``of`` beside it."""

    def __init__(
        self,
        kubelet: PodsApiReader,
        accepted: AcceptedNames,
        stored: StoredPods,
        bound: BoundPods | None = None,
    ) -> None:
        """Args: bound: our own watch, which is in step only where it is needed."""
        self._kubelet = kubelet
        self._accepted = accepted
        self._stored = stored
        self._bound = bound
        self._last: tuple[Pod, ...] | None = None
        self._by_uid: Mapping[str, Pod] = {}

    @property
    def are_not_told(self) -> bool:
        """Whether the kubelet does not tell them: our own watch is needed."""
        return self._kubelet.is_missing()

    def for_admission(self, *, in_flight: bool) -> PodsSnapshot:
        """The pods that the kubelet knows, the one that is being admitted among them.

        Args:
            in_flight: the kubelet has chosen devices for this container already (``must_include``): then its
                list of accepted pods must not be asked for, and the pods of our own watch, or else those had
                last, are the next best.
        """
        try:
            return self._remember(self._kubelet.list())
        except PodsApiError as error:
            why = str(error)
        watched = self._watched
        if in_flight and watched is not None:
            return PodsSnapshot((*watched.gone, *watched.present), from_watch=True)
        if in_flight:
            return PodsSnapshot(self._last, remembered=True, sentences=(why,))
        try:
            accepted = self._accepted.names()
        except PodResourcesError as error:
            return PodsSnapshot(None, sentences=(why, str(error)))
        return self._named(accepted, why) if watched is None else self._found(accepted, watched)

    def caught_up(self) -> bool:
        """After nobody was found to be the one: whether our own watch is asked, and may show more by now.

        A new pod may have the name of an old one, so that the accepted names do not say that it is missing.
        Whether this reading brought anything does not matter: the watch itself may have, since it was asked.
        """
        watched = self._watched
        if watched is None:
            return False
        with suppress(StoredPodsError):
            watched.learn(self._stored)
        return True

    def at_once(self) -> tuple[Pod, ...] | None:
        """The pods that the kubelet knows, asked once and without a fallback; None where it does not say."""
        try:
            return self._remember(self._kubelet.list(patient=False)).pods
        except PodsApiError:
            return None if self._watched is None else self._watched.present

    def everybody(self) -> tuple[Pod, ...]:
        """All pods of the node, those without GPUs too: for whoever names them. Nothing is decided by it."""
        try:
            return self._kubelet.list(patient=False, gpus_only=False)
        except PodsApiError:
            return () if self._watched is None else self._watched.present

    def of(self, uids: Iterable[str]) -> Mapping[str, Pod] | None:
        """The pods with these uids, as far as they exist; None where the kubelet does not say.

        One pod alone may be an older view of it: assignment and wishes of a bound pod do not change. Several
        pods are always looked at afresh: one of them may have ended.
        """
        wanted = tuple(uids)
        known = self._by_uid
        if len(wanted) == 1 and wanted[0] in known:
            return {wanted[0]: known[wanted[0]]}
        try:
            pods = self._kubelet.list()
        except PodsApiError:
            return None if self._watched is None else self._of_watched(wanted, self._watched)
        self._remember(pods)
        # Not from what is remembered: another thread may have put an older list there meanwhile.
        return {pod.metadata.uid: pod for pod in pods if pod.metadata.uid in wanted}

    @property
    def _watched(self) -> BoundPods | None:
        return self._bound if self._bound is not None and self._bound.is_synced else None

    def _named(self, accepted: Names, why: str) -> PodsSnapshot:
        """The accepted pods, by the API server: where nobody watches."""
        try:
            pods = tuple(map(as_the_kubelet_knows_it, self._stored()))
        except StoredPodsError as error:
            return PodsSnapshot(None, sentences=(why, str(error)))
        return self._remember(_with_names(pods, accepted), why)

    def _found(self, accepted: Names, watched: BoundPods) -> PodsSnapshot:
        """The accepted pods, by our own watch; the API server is asked only where that is behind."""
        if not accepted <= {_name(pod) for pod in watched.present}:
            try:
                watched.learn(self._stored)
            except StoredPodsError as error:
                pods = _with_names((*watched.gone, *watched.present), accepted)
                return PodsSnapshot(pods, remembered=True, sentences=(str(error),))
        known = (*watched.gone, *watched.present)
        last = {_name(pod): pod.metadata.uid for pod in known}
        replaced = frozenset(pod.metadata.uid for pod in known if last[_name(pod)] != pod.metadata.uid)
        self._remember(_with_names(known, accepted))
        return PodsSnapshot(self._last, replaced=replaced)

    def _of_watched(self, wanted: tuple[str, ...], watched: BoundPods) -> Mapping[str, Pod] | None:
        """As ``of``: one pod may be gone and is known still, of several each must be known to live or not."""
        known = watched.by_uid()
        if len(wanted) == 1:
            return {uid: known[uid] for uid in wanted if uid in known}
        if not known.keys() >= set(wanted):
            try:
                watched.learn(self._stored)
            except StoredPodsError:
                return None
        return {pod.metadata.uid: pod for pod in watched.present if pod.metadata.uid in wanted}

    def _remember(self, pods: tuple[Pod, ...], *sentences: str) -> PodsSnapshot:
        self._last = pods
        self._by_uid = {pod.metadata.uid: pod for pod in pods}
        return PodsSnapshot(pods, sentences=sentences)


def _name(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.namespace, pod.metadata.name)


def _with_names(pods: Iterable[Pod], accepted: Names) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if _name(pod) in accepted)
