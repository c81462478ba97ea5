"""The pods of this node while the kubelet waits: the kubelet's own list, or else the API server's.

Used by ``allocator``. The kubelet's Pods API does not respond while the first pods after a kubelet start are
admitted, may be flooded by other clients, and is off before Kubernetes 1.37. Then our own watch of the node's
pods (``bound``) is used, with the kubelet's list of accepted names.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from cluster.objects.pods import Pod
from deviceplugin.kubelet.bound_pods import BoundPods, as_the_kubelet_knows_it
from deviceplugin.kubelet.pod_resources import PodResourcesError
from deviceplugin.kubelet.pods_api import PodsApiError


class PodsApiReader(Protocol):
    """The interface of ``pods_api.PodsApi``."""

    def list(self, *, patient: bool = True, gpus_only: bool = True) -> tuple[Pod, ...]:
        """The pods that the kubelet knows: all, or those that may hold GPUs; raises PodsApiError."""
        ...

    def is_missing(self) -> bool:
        """Whether the kubelet has no Pods API."""
        ...


class AcceptedNames(Protocol):
    """The interface of ``pod_resources.PodResources``."""

    def names(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of the pods that the kubelet has accepted; raises PodResourcesError."""
        ...


class StoredPodsError(Exception):
    """The pods of this node could not be listed from the API server."""


_MOST_SETTLED: Final = 1000
Bindings = Mapping[str, tuple[int, int]]
"""Uid -> the first and the last revision at which the pod may have been bound; the first is 0 if unknown."""
Names = frozenset[tuple[str, str]]
"""Namespace and name of each pod."""
StoredPods = Callable[[], tuple[Pod, ...]]
"""The pods of this node as the API server has them; raises StoredPodsError."""


@dataclass(frozen=True)
class PodsSnapshot:
    """The pods, and how they were read."""

    pods: tuple[Pod, ...] | None
    """None if they could not be read."""
    remembered: bool = False
    """They were read for an earlier container, perhaps of another pod."""
    from_watch: bool = False
    """They are only from our own watch: the kubelet may know that some of them have ended."""
    messages: tuple[str, ...] = ()
    """The errors of the sources that failed."""
    replaced: frozenset[str] = frozenset()
    """Uids of pods that are gone from the API server, and whose name a later pod has."""
    settled: frozenset[str] = frozenset()
    """Uids of pods whose admission is over: the kubelet knew them while it admitted others."""
    bindings: Bindings = field(default_factory=dict)
    """When the pods were bound that are in the kubelet's list."""


class PodSource:
    """Tries the sources in order. One ``for_admission`` at a time; ``at_once`` and ``of`` run in parallel."""

    def __init__(
        self,
        kubelet: PodsApiReader,
        accepted: AcceptedNames,
        stored: StoredPods,
        bound: BoundPods | None = None,
    ) -> None:
        """Args: bound: our own watch, which is synced only if it is needed."""
        self._kubelet = kubelet
        self._accepted = accepted
        self._stored = stored
        self._bound = bound
        self._listed: frozenset[str] = frozenset()
        self._settled: dict[str, None] = {}
        self._was_stored = False
        """Whether the pods were last listed from the API server, without a watch: they can be again."""
        self._last: tuple[Pod, ...] | None = None
        self._by_uid: Mapping[str, Pod] = {}

    @property
    def needs_watch(self) -> bool:
        """Whether the kubelet has no Pods API, and our own watch is needed."""
        return self._kubelet.is_missing()

    def for_admission(self, *, in_flight: bool) -> PodsSnapshot:
        """The pods that the kubelet knows, including the one that is being admitted.

        Args:
            in_flight: the kubelet has already chosen devices for this container (``must_include``). Then its
                list of accepted pods must not be called, and all pods that are bound here, or else those read
                last, are used instead.
        """
        self._was_stored = False
        try:
            return self._remember(self._kubelet.list())
        except PodsApiError as error:
            why = str(error)
        watched = self._watched
        if in_flight:
            seen = self._bound_here(watched, why)
            return seen if seen.pods is not None else replace(seen, pods=self._last, remembered=True)
        try:
            accepted = self._accepted.names()
        except PodResourcesError as error:
            return self._bound_here(watched, why, str(error))
        return self._named(accepted, why) if watched is None else self._found(accepted, watched)

    def admitted(self, uid: str) -> None:
        """The last ``for_admission`` was for this pod: of all others in that list the admission is over.

        The kubelet takes pods in one after the other, and each comes into its list when its turn comes.
        Before Kubernetes 1.34 those that it has rejected stay in the list.
        """
        self._settled.pop(uid, None)
        self._settled |= dict.fromkeys(self._listed - {uid})
        for old in tuple(self._settled)[:-_MOST_SETTLED]:
            self._settled.pop(old, None)

    def forget_admissions(self) -> None:
        """A kubelet that has perhaps just started admits all of its pods once more. Safe from any thread."""
        self._settled, self._listed = {}, frozenset()

    def refused(self) -> None:
        """The pod of the last ``for_admission`` was refused: the admission of all in that list is over."""
        self.admitted("")

    def caught_up(self) -> bool:
        """Refresh our own watch after no pod, or several, have matched. Returns whether to look again.

        A new pod may have the name of an old one; then the accepted names do not show that it is missing.
        Whether this list had anything new does not matter: the watch itself may have got it meanwhile.
        """
        watched = self._watched
        if watched is None:
            return self._was_stored
        with suppress(StoredPodsError):
            watched.learn(self._stored)
        return True

    def at_once(self) -> tuple[Pod, ...] | None:
        """The pods that the kubelet knows, by one call; else those of our watch, or None without one."""
        try:
            return self._remember(self._kubelet.list(patient=False)).pods
        except PodsApiError:
            return None if self._watched is None else self._watched.present

    def all_pods(self) -> tuple[Pod, ...]:
        """All pods of the node, those without GPUs too. Only for naming them: no decision uses it."""
        try:
            return self._kubelet.list(patient=False, gpus_only=False)
        except PodsApiError:
            return () if self._watched is None else self._watched.present

    def of(self, uids: Iterable[str]) -> Mapping[str, Pod] | None:
        """The pods with these uids, as far as they exist; None if the pods cannot be read.

        A single pod may be returned in an older state: assignment and requests of a bound pod do not change.
        Several pods are always read again: one of them may have ended.
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
        # Not from the remembered pods: another thread may have put an older list there meanwhile.
        return {pod.metadata.uid: pod for pod in pods if pod.metadata.uid in wanted}

    @property
    def _watched(self) -> BoundPods | None:
        return self._bound if self._bound is not None and self._bound.is_synced else None

    def _named(self, accepted: Names, why: str) -> PodsSnapshot:
        """The accepted pods from the API server, if there is no watch."""
        try:
            pods = tuple(map(as_the_kubelet_knows_it, self._stored()))
        except StoredPodsError as error:
            return PodsSnapshot(None, messages=(why, str(error)))
        self._was_stored = True
        self._listed = _known_by_name(pods, accepted)
        named = self._remember(_with_names(pods, accepted), why)
        return replace(named, settled=frozenset(self._settled))

    def _bound_here(self, watched: BoundPods | None, *why: str) -> PodsSnapshot:
        """All pods that are bound to this node: the kubelet does not say which of them it has accepted."""
        if watched is not None:
            return PodsSnapshot((*watched.gone, *watched.present), from_watch=True, messages=why)
        try:
            return PodsSnapshot(
                tuple(map(as_the_kubelet_knows_it, self._stored())), from_watch=True, messages=why
            )
        except StoredPodsError as error:
            return PodsSnapshot(None, messages=(*why, str(error)))

    def _found(self, accepted: Names, watched: BoundPods) -> PodsSnapshot:
        """The accepted pods from our own watch; the API server is used only if the watch is behind."""
        if not accepted <= {_name(pod) for pod in watched.present}:
            try:
                watched.learn(self._stored)
            except StoredPodsError as error:
                pods = _with_names((*watched.gone, *watched.present), accepted)
                return PodsSnapshot(pods, remembered=True, messages=(str(error),))
        known = (*watched.gone, *watched.present)
        self._listed = _known_by_name(known, accepted)
        last = {_name(pod): pod.metadata.uid for pod in known}
        replaced = frozenset(pod.metadata.uid for pod in known if last[_name(pod)] != pod.metadata.uid)
        self._remember(_with_names(known, accepted))
        bindings = {
            uid: (first if uid in self._listed else 0, last)
            for uid, (first, last) in watched.bindings().items()
        }
        return PodsSnapshot(
            self._last, replaced=replaced, settled=frozenset(self._settled), bindings=bindings
        )

    def _of_watched(self, wanted: tuple[str, ...], watched: BoundPods) -> Mapping[str, Pod] | None:
        """As ``of``. A single pod may be one that is gone; of several, each must be known to exist or not."""
        known = watched.by_uid()
        if len(wanted) == 1:
            return {uid: known[uid] for uid in wanted if uid in known}
        if not known.keys() >= set(wanted):
            try:
                watched.learn(self._stored)
            except StoredPodsError:
                return None
        return {pod.metadata.uid: pod for pod in watched.present if pod.metadata.uid in wanted}

    def _remember(self, pods: tuple[Pod, ...], *messages: str) -> PodsSnapshot:
        self._last = pods
        self._by_uid = {pod.metadata.uid: pod for pod in pods}
        return PodsSnapshot(pods, messages=messages)


def _name(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.namespace, pod.metadata.name)


def _known_by_name(pods: Iterable[Pod], accepted: Names) -> frozenset[str]:
    """Uids of the pods that these names mean; of a name that several pods have had, none."""
    uids: dict[tuple[str, str], set[str]] = {}
    for pod in pods:
        uids.setdefault(_name(pod), set()).add(pod.metadata.uid)
    return frozenset(
        uid for name, found in uids.items() if name in accepted and len(found) == 1 for uid in found
    )


def _with_names(pods: Iterable[Pod], accepted: Names) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if _name(pod) in accepted)
