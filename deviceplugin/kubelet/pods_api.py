"""The kubelet's Pods API: the pods that it knows now, including the one that is being admitted.

Source: kubelet 1.37.1, apis/pods. It is on by default since Kubernetes 1.37, returns FAILED_PRECONDITION
until the first pods after the kubelet's start are admitted, and accepts 100 calls/s from all clients
together. It has no side effects.
"""

import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import grpc

from cluster import names
from cluster.objects.meta import Meta
from cluster.objects.pods import Container, Pod, PodSpec, PodStatus, Resources
from cluster.process.clock import Clock
from deviceplugin.kubelet.channel import channel
from deviceplugin.kubeletapi.core_v1 import api_pb2 as core
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2, api_pb2_grpc

DEADLINE = 2.0
"""Seconds for one list, with all its retries: the kubelet admits no pod meanwhile."""
SHORT_DEADLINE = 0.5
"""Seconds for a list whose call is not repeated."""
RETRY_EVERY = 0.005
"""Seconds to wait after a call that was rejected by the rate limit."""
RETRIES = 40
"""Maximum number of repeated calls."""
PATIENCE = 0.2
"""Seconds after the first rejection from which a rejected call is not repeated."""
_SILENT = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.DEADLINE_EXCEEDED}
)
"""The status of a call that nobody answered."""
_GPU, _MIG = names.GPU_RESOURCE.encode(), names.MIG_RESOURCE_PREFIX.encode()


class PodsApiError(Exception):
    """The pods could not be read. ``code`` is the status of the call."""

    def __init__(self, message: str, *, code: grpc.StatusCode) -> None:
        super().__init__(message)
        self.code = code


class PodsApi:
    """The kubelet's Pods API, over its socket."""

    def __init__(self, socket: Path, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock
        self._connected = _Connected(channel(socket))
        self._renewing = threading.Lock()
        self._last: Mapping[bytes, Pod] = {}

    def list(self, *, patient: bool = True, gpus_only: bool = True) -> tuple[Pod, ...]:
        """The pods that the kubelet knows. Safe from any thread.

        Args:
            patient: repeat a call that the rate limit rejects.
            gpus_only: leave out pods that cannot hold a GPU, without decoding them.

        Raises:
            PodsApiError: the kubelet is initializing, does not serve this API, is flooded or unreachable.
        """
        if not self._socket.exists():
            message = f"The kubelet has no Pods API: there is no {self._socket}."
            raise PodsApiError(message, code=grpc.StatusCode.UNAVAILABLE)
        ends = self._clock.monotonic() + (DEADLINE if patient else SHORT_DEADLINE)
        patience = _Patience(self._clock, retries=RETRIES if patient else 0, ends=ends)
        reconnected = False
        while True:
            used = self._connected
            try:
                answer = self._call(used, ends)
            except ValueError:
                # Another thread has closed the channel; there is a new one.
                if used is self._connected:
                    raise
            except grpc.RpcError as error:
                code = error.code()
                if code is grpc.StatusCode.CANCELLED and used is not self._connected:
                    continue
                if code is grpc.StatusCode.UNAVAILABLE and not reconnected:
                    reconnected = True
                    self._reconnect(used)
                elif code is not grpc.StatusCode.RESOURCE_EXHAUSTED or not patience.has_waited():
                    why = f"{code.name}: {error.details()}"
                    raise PodsApiError(
                        f"The kubelet's Pods API ({self._socket}) gave no pods: {why}", code=code
                    ) from error
            else:
                return self._decoded(answer.pods) if gpus_only else tuple(map(decode, answer.pods))

    def _decoded(self, contents: Iterable[bytes]) -> tuple[Pod, ...]:
        """Decode pods that may hold GPUs. Few pods change between two responses: the others are reused."""
        last = self._last
        new = {
            content: last.get(content) or decode(content)
            for content in contents
            if _may_ask_for_gpus(content)
        }
        self._last = new
        return tuple(new.values())

    def _call(self, used: "_Connected", ends: float) -> api_pb2.ListPodsResponse:
        left = max(RETRY_EVERY, ends - self._clock.monotonic())
        return used.pods.ListPods(api_pb2.ListPodsRequest(), timeout=left)

    def is_missing(self) -> bool:
        """Whether this API is not served: a kubelet before 1.37, one with the API off, or none at all."""
        try:
            self.list(patient=False)
        except PodsApiError as error:
            return error.code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED}
        return False

    def problem(self) -> str | None:
        """Why this API does not answer; None if it does, be it that it is initializing or flooded."""
        try:
            self.list(patient=False)
        except PodsApiError as error:
            return str(error) if error.code in _SILENT else None
        return None

    def _reconnect(self, used: "_Connected") -> None:
        """Replace the channel: it pauses after it has found a dead socket, a new one does not."""
        with self._renewing:
            if used is not self._connected:
                return
            self._connected = _Connected(channel(self._socket))
        used.channel.close()


class _Connected:
    """A channel, and its calls, which are made once: that takes longer than to choose devices."""

    def __init__(self, made: grpc.Channel) -> None:
        self.channel: Final = made
        self.pods: Final = api_pb2_grpc.PodsStub(made)


class _Patience:
    """The retries of one list that the rate limit rejects: bounded in number and in time."""

    def __init__(self, clock: Clock, *, retries: int, ends: float) -> None:
        self._clock = clock
        self._left = retries
        self._question_ends = ends
        self._ends: float | None = None
        self._never = threading.Event()

    def has_waited(self) -> bool:
        """Wait after a rejection; returns whether the call may be repeated."""
        now = self._clock.monotonic()
        if self._ends is None:
            self._ends = now + PATIENCE
        if not self._left or now >= self._ends:
            return False
        self._left -= 1
        self._clock.wait(self._never, RETRY_EVERY)
        return self._clock.monotonic() < self._question_ends


def _may_ask_for_gpus(content: bytes) -> bool:
    """Whether a pod's bytes name a GPU resource: decoding all pods would take longer than everything else."""
    return _GPU in content or _MIG in content  # a loop would take longer, for each pod of the node


def decode(content: bytes) -> Pod:
    """Convert a pod from its protobuf form into the struct that all parts use."""
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
