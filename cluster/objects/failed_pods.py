"""Pods that have failed, with the fields that decide whether they come back."""

from datetime import datetime, timedelta
from typing import Final

from cluster.objects.meta import Meta, Partial
from cluster.objects.pods import ContainerState, ContainerStatus, Pod, PodSpec, PodStatus

KUBELET: Final = "kubelet"
"""The kubelet's name in ``managedFields``."""
REFUSED_WITHIN: Final = timedelta(seconds=15)
"""From the ``startTime`` of a rejected pod to the write that reports the rejection: below a second, and ten
seconds if the kubelet itself has just started (measured with kubelet 1.37)."""


UNKNOWN: Final = "ContainerStatusUnknown"
"""``reason`` of a container of which the kubelet found nothing when it gave the pod up."""


class Writer(Partial, frozen=True):
    """One entry of ``metadata.managedFields``: the last writer, and when."""

    manager: str | None = None
    subresource: str | None = None
    time: datetime | None = None


class FailedMeta(Meta, frozen=True):
    """``metadata`` of a pod that has failed."""

    managed_fields: tuple[Writer, ...] | None = None


class FailedContainer(ContainerStatus, frozen=True):
    """One entry of ``status.containerStatuses`` or ``status.initContainerStatuses``."""

    last_state: ContainerState | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the container has run, however briefly: one of which nothing was found is not reported.

        The runtime knows of what ran before the kubelet itself was killed; after a power cut nobody does, and
        ``FailedPod.has_begun`` goes by the time at which the pod was accepted.
        """
        return _ran(self.last_state) or (_ran(self.state) and not _is_unknown(self.state))


def _ran(state: ContainerState | None) -> bool:
    return bool(state and (state.running or (state.terminated and state.terminated.has_begun)))


def _is_unknown(state: ContainerState | None) -> bool:
    ended = state.terminated if state else None
    return ended is not None and ended.reason == UNKNOWN and ended.started_at is None


class FailedSpec(PodSpec, frozen=True):
    """``spec`` of a pod that has failed."""

    restart_policy: str | None = None
    """None means ``Always``."""


class FailedStatus(PodStatus, frozen=True):
    """``status`` of a pod that has failed."""

    container_statuses: tuple[FailedContainer, ...] | None = None
    init_container_statuses: tuple[FailedContainer, ...] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether any container has run, however briefly."""
        containers = (*(self.init_container_statuses or ()), *(self.container_statuses or ()))
        return any(container.has_begun for container in containers)


class FailedPod(Pod, frozen=True):
    """A Pod of phase Failed, with what shows whether a kubelet rejected it."""

    metadata: FailedMeta = FailedMeta()
    spec: FailedSpec = FailedSpec()
    status: FailedStatus = FailedStatus()

    @property
    def has_begun(self) -> bool:
        """Whether any container may have run.

        A kubelet that rejects a pod when it starts after a power cut may not report the containers that the
        pod had; but then it had accepted the pod long before.
        """
        return self.status.has_begun or self._was_accepted_before()

    def _was_accepted_before(self) -> bool:
        started = self.status.start_time
        times = [
            one.time
            for one in self.metadata.managed_fields or ()
            if one.manager == KUBELET and one.subresource == "status" and one.time
        ]
        return started is not None and bool(times) and max(times) - started > REFUSED_WITHIN
