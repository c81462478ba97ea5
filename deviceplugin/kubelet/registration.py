"""Registration with the kubelet: when to register, under which name, and the loop that does it.

Source: kubelet 1.37.1, cm/devicemanager and plugin/v1beta1. The kubelet identifies plugins by socket path. A
second registration of a path that it still counts as connected is refused and makes it forget the first: it
then never notices that the plugin is gone. So every registration has a socket name of its own, and we do not
register while our ListAndWatch stream is open. A starting kubelet deletes every socket and forgets every
plugin, which we notice by the end of the stream.
"""

import hashlib
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final, Protocol

import grpc
import structlog

from cluster import names
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.process.clock import Clock
from deviceplugin.kubelet.channel import LARGEST_MESSAGE, channel
from deviceplugin.kubelet.second_plugin import none_is_there
from deviceplugin.kubelet.streams import Streams
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.metrics import AgentMetrics

log = structlog.get_logger(__name__)

KUBELET_SOCKET: Final = "kubelet.sock"
POLL = 0.1
"""Seconds between two checks: the kubelet admits pods that need us 0.8 s after its start."""
STREAM_WITHIN = 2.0
"""Seconds after a registration within which the kubelet must have opened its stream."""
REGISTER_DEADLINE = 12.0
"""Timeout in seconds; the kubelet itself gives up after 10 s."""
LOOK_EVERY = 5.0
"""Seconds between two looks for another plugin while we are registered."""
LONGEST_PAUSE = 5.0
"""Maximum seconds between two attempts, after many that failed."""
GRACE = 2.0
"""Seconds for calls in progress when a server stops."""
LONGEST_PATH = 107
"""Bytes: the limit of Linux for the path of a unix socket."""
WORKERS = 16
"""Number of threads for calls: each open stream takes one, and starts of containers come in parallel."""


class Step(Enum):
    """What to do now."""

    REST = auto()
    """Nothing: the kubelet's stream is open."""
    WAIT = auto()
    """Check again soon."""
    REGISTER = auto()
    """Serve under a new name and register."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The known state at one instant. Instants are seconds of the monotonic clock."""

    now: float
    kubelet_answers: bool
    """Whether a plain connection to the kubelet's socket succeeds."""
    stream_open: bool
    stream_ended: bool
    """Whether our newest registration had a stream that has ended."""
    registered_at: float | None = None
    """When the newest registration succeeded; None if it failed, or there was none."""
    failures: int = 0
    """Number of registrations since the last one that led to a stream."""
    tried_at: float | None = None


def next_step(seen: Situation) -> Step:
    """What to do in this situation."""
    if seen.stream_open:
        return Step.REST
    if not seen.kubelet_answers:
        return Step.WAIT
    pause = exponential_backoff(seen.failures, first=POLL, longest=LONGEST_PAUSE)
    if seen.tried_at is not None and seen.now - seen.tried_at < pause:
        return Step.WAIT
    accepted = seen.registered_at is not None and not seen.stream_ended
    if accepted and seen.now - (seen.registered_at or 0.0) < STREAM_WITHIN:
        return Step.WAIT
    return Step.REGISTER


class SocketNames:
    """Names of our sockets: ``gpu-booking-<instance>-<n>.sock``, never the same one twice.

    The instance is a digest of our pod's uid, or of the process id: a socket's path has at most 107 bytes,
    and in some distributions the path of the kubelet's folder is long. A container that restarts in the same
    pod must not reuse a name either, so the hexadecimal numbers begin at the time of the start. All resources
    of an agent share them.
    """

    LONGEST: Final = len(f"{names.SOCKET_PREFIX}{8 * 'f'}-{11 * 'f'}.sock")
    """Bytes of the longest name, until the year 2527."""

    def __init__(self, instance: str, started_at_ms: int) -> None:
        digest = hashlib.blake2s(instance.encode(), digest_size=4).hexdigest()
        self._prefix = f"{names.SOCKET_PREFIX}{digest}-"
        self._ours = re.compile(f"{self._prefix}[0-9a-f]+[.]sock")
        self._number = started_at_ms
        self._lock = threading.Lock()
        self._in_use: set[str] = set()

    def next(self) -> str:
        """A name that was never used, and is in use from now on."""
        with self._lock:
            self._number += 1
            name = f"{self._prefix}{self._number:x}.sock"
            self._in_use.add(name)
        return name

    def done(self, name: str) -> None:
        """The name is no longer in use."""
        with self._lock:
            self._in_use.discard(name)

    def is_left_over(self, name: str) -> bool:
        """Whether a file name is one of ours that is not in use: its socket may be removed."""
        return self.is_ours(name) and name not in self._in_use

    def is_ours(self, name: str) -> bool:
        """Whether a file name belongs to this instance, from this start or an earlier one."""
        return self._ours.fullmatch(name) is not None


class Plugin(Protocol):
    """Creates a servicer for one registration."""

    def __call__(self, streams: Streams, /) -> api_pb2_grpc.DevicePluginServicer:
        """The servicer, whose open streams are counted in ``streams``."""
        ...


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """Where the sockets of a resource's registrations are, and how they are named."""

    folder: Path
    """The kubelet's folder of device plugins."""
    resource: str
    names: SocketNames


class Registrar:
    """The thread that keeps us registered."""

    def __init__(
        self,
        endpoints: Endpoints,
        plugin: Plugin,
        *,
        metrics: AgentMetrics,
        clock: Clock,
        other_plugin: Callable[[], str | None] = none_is_there,
    ) -> None:
        """Nothing is registered yet.

        Args:
            endpoints: where and how.
            plugin: creates the servicer of a registration.
            metrics: get the registrations.
            clock: for pauses.
            other_plugin: returns which other plugin gives out the GPUs, for people: then we do not register.
        """
        self._other_plugin = other_plugin
        self._looked_at = float("-inf")
        self._endpoints = endpoints
        self._plugin = plugin
        self._metrics = metrics
        self._clock = clock
        self._streams = Streams()
        self._server: grpc.Server | None = None
        self._name = ""
        self._registered_at: float | None = None
        self._tried_at: float | None = None
        self._failures = 0
        self._message = "Not registered with the kubelet yet."

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has our devices: its stream is open, and the first list has been sent."""
        return self._streams.is_listed

    @property
    def problem(self) -> str | None:
        """Why we are not registered, for people; None if we are."""
        return None if self.is_registered else self._message

    def run(self, stop: threading.Event) -> None:
        """Stay registered until the stop event is set; then wait for calls to end, and remove our sockets."""
        try:
            while not stop.is_set():
                if self._step() is not Step.REGISTER:
                    self._clock.wait(stop, POLL)
        finally:
            self._stop_serving().wait()
            with suppress(OSError):
                self._remove_old_sockets()
            self._metrics.registered.labels(self._endpoints.resource).set(0)
            self._metrics.registered.remove(self._endpoints.resource)

    def _step(self) -> Step:
        is_open = self._streams.is_open
        if is_open:
            self._failures = 0
        if self._leaves_to_another(is_open=is_open):
            return Step.WAIT
        self._metrics.registered.labels(self._endpoints.resource).set(self.is_registered)
        step = next_step(
            Situation(
                now=self._clock.monotonic(),
                kubelet_answers=not is_open and self._kubelet_answers(),
                stream_open=is_open,
                stream_ended=self._streams.has_ended,
                registered_at=self._registered_at,
                failures=self._failures,
                tried_at=self._tried_at,
            )
        )
        if step is Step.REGISTER:
            self._register()
        return step

    def _leaves_to_another(self, *, is_open: bool) -> bool:
        """Whether another plugin gives out the GPUs: then we are not registered, and say so."""
        now = self._clock.monotonic()
        if is_open and now - self._looked_at < LOOK_EVERY:
            return False
        self._looked_at = now
        found = self._other_plugin()
        self._metrics.other_plugin.set(found is not None)
        if found is None:
            return False
        if found != self._message:
            log.error("another device plugin gives out the GPUs", message=found)
        self._message = found
        self._metrics.registered.labels(self._endpoints.resource).set(0)
        if self._server is not None:
            self._stop_serving()
            self._remove_old_sockets()
        return True

    def _kubelet_answers(self) -> bool:
        """Whether the kubelet's socket accepts connections; a gRPC channel would pause after a failure."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(self._endpoints.folder / KUBELET_SOCKET))
            except OSError as error:
                where = self._endpoints.folder / KUBELET_SOCKET
                self._message = f"The kubelet does not answer on {where}: {error}."
                return False
        return True

    def _register(self) -> None:
        self._tried_at = self._clock.monotonic()
        self._failures += 1
        self._registered_at = None
        self._stop_serving()
        name = self._name = self._endpoints.names.next()
        try:
            self._remove_old_sockets()
            self._serve(name)
            self._register_with_kubelet(name)
        except (OSError, RuntimeError, grpc.RpcError) as error:
            self._metrics.registrations.labels("failed").inc()
            self._message = f"The kubelet did not accept the registration of {name}: {_brief(error)}."
            log.warning("registration with the kubelet failed", socket=name, message=self._message)
            return
        self._registered_at = self._clock.monotonic()
        self._metrics.registrations.labels("accepted").inc()
        self._message = f"Registered as {name}, but the kubelet has not asked for the devices yet."
        log.info("registered with the kubelet", socket=name, resource=self._endpoints.resource)

    def _serve(self, name: str) -> None:
        path = self._endpoints.folder / name
        if len(bytes(path)) > LONGEST_PATH:
            raise OSError(f"the path {path} is longer than {LONGEST_PATH} bytes")
        self._streams = Streams()
        server = grpc.server(
            ThreadPoolExecutor(WORKERS, thread_name_prefix="kubelet-call"),
            options=[
                ("grpc.max_send_message_length", LARGEST_MESSAGE),
                ("grpc.max_receive_message_length", LARGEST_MESSAGE),
            ],
        )
        api_pb2_grpc.add_DevicePluginServicer_to_server(self._plugin(self._streams), server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self._server = server

    def _register_with_kubelet(self, name: str) -> None:
        with channel(self._endpoints.folder / KUBELET_SOCKET) as connection:
            api_pb2_grpc.RegistrationStub(connection).Register(
                api_pb2.RegisterRequest(
                    version="v1beta1",
                    endpoint=name,
                    resource_name=self._endpoints.resource,
                    options=options(),
                ),
                timeout=REGISTER_DEADLINE,
            )

    def _stop_serving(self) -> threading.Event:
        """End the newest registration; the event is set when the last call in progress is over."""
        self._streams.close()
        self._endpoints.names.done(self._name)
        stopped = threading.Event()
        if self._server is not None:
            stopped = self._server.stop(GRACE)
            self._server = None
        else:
            stopped.set()
        return stopped

    def _remove_old_sockets(self) -> None:
        """Remove what we have left; another instance's socket is never touched."""
        if self._endpoints.folder.is_dir():
            for path in self._endpoints.folder.iterdir():
                if self._endpoints.names.is_left_over(path.name):
                    path.unlink(missing_ok=True)


def _brief(error: Exception) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name}: {error.details()}".rstrip(".")
    return str(error).rstrip(".")


def options() -> api_pb2.DevicePluginOptions:
    """The optional calls that we want from the kubelet."""
    return api_pb2.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
