"""The pods of this node while the kubelet waits: its own, or where it cannot say the API server's.

Used by ``admission``. The kubelet's Pods API is silent while the first pods after a kubelet start are
admitted, may be flooded by other clients, and is off before Kubernetes 1.37.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cluster.objects.pods import Pod
from deviceplugin.podresources import PodResourcesError
from deviceplugin.podsapi import PodsApiError


class KubeletPods(Protocol):
    """The port of ``podsapi.PodsApi``."""

    def list(self, *, patient: bool = True) -> tuple[Pod, ...]:
        """All pods that the kubelet knows; raises PodsApiError."""
        ...


class AcceptedNames(Protocol):
    """The port of ``podresources.PodResources``."""

    def names(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of the pods that the kubelet has accepted; raises PodResourcesError."""
        ...


class StoredPodsError(Exception):
    """The API server could not be asked for the pods of this node; a sentence."""


StoredPods = Callable[[], tuple[Pod, ...]]
"""The pods of this node as the API server has them; raises StoredPodsError."""


@dataclass(frozen=True)
class Seen:
    """The pods, and how they were had."""

    pods: tuple[Pod, ...] | None
    """None: not at all."""
    remembered: bool = False
    """They were had for an earlier container, perhaps of another pod."""
    sentences: tuple[str, ...] = ()
    """What went wrong on the way."""


class NodePods:
    """Asks the sources in their order. One admission at a time; ``at_once`` and ``of`` beside it."""

    def __init__(self, kubelet: KubeletPods, accepted: AcceptedNames, stored: StoredPods) -> None:
        self._kubelet = kubelet
        self._accepted = accepted
        self._stored = stored
        self._last: tuple[Pod, ...] | None = None
        self._by_uid: Mapping[str, Pod] = {}

    def for_admission(self, *, in_flight: bool) -> Seen:
        """The pods that the kubelet knows, the one that is being admitted among them.

        Args:
            in_flight: the kubelet has chosen devices for this container already (``must_include``): then its
                list of accepted pods must not be asked for, and the pods had last are the next best.
        """
        try:
            return self._remember(self._kubelet.list())
        except PodsApiError as error:
            why = str(error)
        if in_flight:
            return Seen(self._last, remembered=True, sentences=(why,))
        try:
            accepted = self._accepted.names()
            pods = self._stored()
        except (PodResourcesError, StoredPodsError) as error:
            return Seen(None, sentences=(why, str(error)))
        known = tuple(pod for pod in pods if (pod.metadata.namespace, pod.metadata.name) in accepted)
        return self._remember(known, why)

    def at_once(self) -> tuple[Pod, ...] | None:
        """The pods that the kubelet knows, asked once and without a fallback; None where it does not say."""
        try:
            return self._remember(self._kubelet.list(patient=False)).pods
        except PodsApiError:
            return None

    def of(self, uids: Iterable[str]) -> Mapping[str, Pod] | None:
        """The pods with these uids, as far as they exist; None where the kubelet does not say.

        One pod alone may be an older view of it: promise and wishes of a bound pod do not change. Several
        pods are always looked at afresh: one of them may have ended.
        """
        wanted = tuple(uids)
        known = self._by_uid
        if len(wanted) == 1 and wanted[0] in known:
            return {wanted[0]: known[wanted[0]]}
        try:
            pods = self._kubelet.list()
        except PodsApiError:
            return None
        self._remember(pods)
        # Not from what is remembered: another thread may have put an older list there meanwhile.
        return {pod.metadata.uid: pod for pod in pods if pod.metadata.uid in wanted}

    def _remember(self, pods: tuple[Pod, ...], *sentences: str) -> Seen:
        self._last = pods
        self._by_uid = {pod.metadata.uid: pod for pod in pods}
        return Seen(pods, sentences=sentences)
