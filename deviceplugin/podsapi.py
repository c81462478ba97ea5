"""The kubelet's Pods API: the pods that it knows now, the one that is being admitted among them.

Source: kubelet 1.37.1, apis/pods: on by default since Kubernetes 1.37; answers FAILED_PRECONDITION until the
first pods after its start are admitted; 100 calls/s for all clients together. It has no side effects.
"""

import threading
from datetime import UTC, datetime
from pathlib import Path

import grpc

from cluster.objects.meta import Meta
from cluster.objects.pods import Container, Pod, PodSpec, PodStatus, Resources
from cluster.runtime.clock import Clock
from deviceplugin.kubeletapi.core_v1 import api_pb2 as core
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2, api_pb2_grpc
from deviceplugin.kubeletclient import channel

DEADLINE = 2.0
"""Seconds for one question, however many calls it takes: the kubelet admits no pod meanwhile."""
SHORT_DEADLINE = 0.5
"""Seconds for a question whose call is not repeated."""
RETRY_EVERY = 0.005
"""Seconds between two calls, where the first was rejected by the rate limit."""
RETRIES = 40
"""How often at most."""
PATIENCE = 0.2
"""Seconds since the first rejection after which a rejected call is not repeated."""


class PodsApiError(Exception):
    """The pods could not be had; a sentence."""

    def __init__(self, sentence: str, *, code: grpc.StatusCode) -> None:
        super().__init__(sentence)
        self.code = code


class PodsApi:
    """The adapter over the socket."""

    def __init__(self, socket: Path, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock
        self._channel = channel(socket)

    def list(self, *, patient: bool = True) -> tuple[Pod, ...]:
        """All pods that the kubelet knows.

        Args:
            patient: repeat a call that the rate limit rejects.

        Raises:
            PodsApiError: the kubelet is initializing, does not serve this API, is flooded or away.
        """
        ends = self._clock.monotonic() + (DEADLINE if patient else SHORT_DEADLINE)
        patience = _Patience(self._clock, retries=RETRIES if patient else 0, ends=ends)
        reconnected = False
        while True:
            try:
                answer = self._call(ends)
            except grpc.RpcError as error:
                code = error.code()
                if code is grpc.StatusCode.UNAVAILABLE and not reconnected:
                    reconnected = True
                    self._reconnect()
                elif code is not grpc.StatusCode.RESOURCE_EXHAUSTED or not patience.has_waited():
                    why = f"{code.name}: {error.details()}"
                    raise PodsApiError(
                        f"The kubelet's Pods API ({self._socket}) gave no pods: {why}", code=code
                    ) from error
            else:
                return tuple(decode(content) for content in answer.pods)

    def _call(self, ends: float) -> api_pb2.ListPodsResponse:
        left = max(RETRY_EVERY, ends - self._clock.monotonic())
        return api_pb2_grpc.PodsStub(self._channel).ListPods(api_pb2.ListPodsRequest(), timeout=left)

    def _reconnect(self) -> None:
        """A channel that has met a dead socket waits before it tries again; a new one does not."""
        old, self._channel = self._channel, channel(self._socket)
        old.close()


class _Patience:
    """With the rate limit that rejects the calls of one question: bounded by number and by time."""

    def __init__(self, clock: Clock, *, retries: int, ends: float) -> None:
        self._clock = clock
        self._left = retries
        self._question_ends = ends
        self._ends: float | None = None
        self._never = threading.Event()

    def has_waited(self) -> bool:
        """After a rejection: wait, and say whether the call may be repeated."""
        now = self._clock.monotonic()
        if self._ends is None:
            self._ends = now + PATIENCE
        if not self._left or now >= self._ends:
            return False
        self._left -= 1
        self._clock.wait(self._never, RETRY_EVERY)
        return self._clock.monotonic() < self._question_ends


def decode(content: bytes) -> Pod:
    """A pod in its protobuf form, as the struct that all parts use."""
    pod = core.Pod.FromString(content)
    return Pod(
        metadata=Meta(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            uid=pod.metadata.uid,
            annotations=dict(pod.metadata.annotations),
            deletion_timestamp=_instant(pod.metadata.deletionTimestamp)
            if pod.metadata.HasField("deletionTimestamp")
            else None,
        ),
        spec=PodSpec(
            containers=tuple(map(_container, pod.spec.containers)),
            init_containers=tuple(map(_container, pod.spec.initContainers)),
        ),
        status=PodStatus(
            phase=pod.status.phase or None,
            start_time=_instant(pod.status.startTime) if pod.status.HasField("startTime") else None,
        ),
    )


def _container(container: core.Container) -> Container:
    return Container(
        name=container.name,
        resources=Resources(
            limits={name: limit.string for name, limit in container.resources.limits.items()}
        ),
        restart_policy=container.restartPolicy or None,
    )


def _instant(time: core.Time) -> datetime:
    return datetime.fromtimestamp(time.seconds, UTC)
