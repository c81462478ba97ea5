"""The cluster now, for people: out of the picture that the server follows. Any thread may ask."""

import re
from collections.abc import Callable
from typing import Final

from booking import wording
from booking.errors import ClusterError, UnknownPodError
from booking.live.eyes import Eyes
from booking.live.now import Now, now_of
from booking.live.sight import Sight, about, take
from booking.live.why import Why, why_of
from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.terms import Terms
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.port import Kube
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from cluster.picture import Picture, Witness
from cluster.runtime.clock import Clock
from cluster.runtime.probes import Check

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_POD: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""Names that Kubernetes allows; nobody else's is asked for."""


class Live:
    """Answers *now* and *why*."""

    def __init__(
        self,
        picture: Picture,
        kube: Kube,
        clock: Clock,
        terms: Terms,
        *,
        visibility: Callable[[], Visibility],
        obstacle: Check,
    ) -> None:
        """Take its parts.

        Args:
            picture: of the cluster.
            kube: asked for pods that the picture leaves out: ended ones, and those without GPUs.
            clock: the time.
            terms: the administrator's settings.
            visibility: what people see of others.
            obstacle: why the picture is not to be trusted now.
        """
        self._picture, self._kube, self._clock, self._terms = picture, kube, clock, terms
        self._witness = Witness(picture)
        self._visibility, self._obstacle = visibility, obstacle

    def now(self, who: Principal) -> Now:
        """Nodes, devices, holders, and who goes next.

        Raises:
            ClusterError: the cluster is not known now.
        """
        return now_of(self._sight(), self._eyes(who))

    def why(self, who: Principal, namespace: str, name: str) -> Why:
        """Why a pod is as it is.

        Raises:
            UnknownPodError: there is none of that name that this user may see.
            ClusterError: the cluster is not known now, or the API server does not answer.
        """
        sight = self._sight(self._witness)
        pod = self._found(sight, namespace, name)
        eyes = self._eyes(who)
        if pod is None or not eyes.may_ask_about(pod):
            raise UnknownPodError(
                f"You have no pod {wording.quoted(name)} in the namespace {wording.quoted(namespace)}."
            )
        return why_of(pod, about(pod, sight, self._witness), eyes)

    def mine(self, who: Principal) -> tuple[tuple[str, str], ...]:
        """Namespace and name of one's own pods that ask for GPUs, in their order."""
        pods = self._sight().pods.values()
        own = (pod for pod in pods if Eyes.user_of(pod) == who.user)
        return tuple(sorted((pod.metadata.namespace, pod.metadata.name) for pod in own))

    def _sight(self, witness: Witness | None = None) -> Sight:
        trouble = self._obstacle()
        if trouble:
            raise ClusterError(trouble)
        return take(self._picture, self._clock, self._terms, witness)

    def _eyes(self, who: Principal) -> Eyes:
        return Eyes(who, self._visibility())

    def _found(self, sight: Sight, namespace: str, name: str) -> Pod | None:
        if not _NAMESPACE.fullmatch(namespace) or not _POD.fullmatch(name):
            return None
        known = (pod for pod in sight.pods.values() if pod.metadata.name == name)
        found = next((pod for pod in known if pod.metadata.namespace == namespace), None)
        return found or self._asked(namespace, name)

    def _asked(self, namespace: str, name: str) -> Pod | None:
        try:
            return self._kube.get(PODS, name, namespace=namespace)
        except NotFound:
            return None
        except ApiError as error:
            raise ClusterError("The Kubernetes API server does not answer. Ask again soon.") from error
