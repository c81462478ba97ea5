"""Events: messages about a pod or a node for people, as ``kubectl describe`` shows them (law L8).

Recording never blocks and never fails: messages wait in a queue for the recorder's thread. If the queue is
full or the API server refuses, they are dropped and counted. A message that repeats within ten minutes raises
the count of the existing Event.
"""

import queue
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import structlog
from prometheus_client import CollectorRegistry, Counter

from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import EVENTS, NODES, PODS
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from cluster.process.metrics import NAMESPACE
from cluster.process.stop_events import call_at

log = structlog.get_logger(__name__)

Severity = Literal["Normal", "Warning"]

AGGREGATED_WITHIN: Final = 600.0
"""Seconds within which a repeated message counts for the existing Event."""
LONGEST_QUEUE: Final = 1000
LAST_WORDS: Final = 5.0
"""Seconds for which the end of the process may be delayed to write waiting messages."""
MOST_REMEMBERED: Final = 4096
LONGEST_MESSAGE: Final = 1024
"""Characters; the API server refuses longer ones."""
LONGEST_NAME: Final = 200
NAMESPACE_OF_NODES: Final = "default"
"""The namespace of Events about objects without one, as for the kubelet's."""


@dataclass(frozen=True)
class _EventKey:
    """An Event's content: Events with equal content are aggregated."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    severity: Severity
    reason: str
    message: str


@dataclass(frozen=True)
class _WrittenEvent:
    """The Event that holds a message."""

    event: str
    count: int
    at: float


class EventRecorder:
    """Writes Events. ``run`` is the body of a thread; without it nothing is written."""

    def __init__(
        self, kube: Kube, clock: Clock, *, component: str, registry: CollectorRegistry | None = None
    ) -> None:
        """Args: component: the Events' source; registry: where dropped and written Events are counted."""
        self._kube = kube
        self._clock = clock
        self._component = component
        self._queue: queue.Queue[tuple[_EventKey, datetime] | None] = queue.Queue(LONGEST_QUEUE)
        """A None only wakes the recorder's thread."""
        self._written: dict[_EventKey, _WrittenEvent] = {}
        self._outcomes = Counter(
            "events_total",
            "Events about objects, by what became of them: written, dropped (queue full), refused.",
            ["outcome"],
            namespace=NAMESPACE,
            registry=registry,
        )

    def normal(self, about: Pod | Node, reason: str, message: str) -> bool:
        """Record that something went well; reason is one CamelCase word. False if it was dropped."""
        return self._enqueue(about, "Normal", reason, message)

    def warning(self, about: Pod | Node, reason: str, message: str) -> bool:
        """Record that something is wrong; reason is one CamelCase word. False if it was dropped."""
        return self._enqueue(about, "Warning", reason, message)

    def run(self, stop: threading.Event) -> None:
        """Write messages until ``stop`` is set, then those that still wait."""
        call_at(stop, self._wake)
        while not stop.is_set():
            if (message := self._queue.get()) is not None:
                self._write(*message)
        self.flush(within=LAST_WORDS)

    def _wake(self) -> None:
        with suppress(queue.Full):  # then the thread does not wait
            self._queue.put_nowait(None)

    def flush(self, within: float = float("inf")) -> None:
        """Write waiting messages, in this thread, until the API server refuses or the seconds are over."""
        end = self._clock.monotonic() + within
        while not self._queue.empty() and self._clock.monotonic() < end:
            message = self._queue.get_nowait()
            if message is not None and not self._write(*message):
                return

    def _enqueue(self, about: Pod | Node, severity: Severity, reason: str, message: str) -> bool:
        resource = PODS if isinstance(about, Pod) else NODES
        text = _EventKey(
            kind=resource.kind,
            api_version=resource.api_version,
            namespace=about.metadata.namespace or NAMESPACE_OF_NODES,
            name=about.metadata.name,
            uid=about.metadata.uid,
            severity=severity,
            reason=reason,
            message=message[:LONGEST_MESSAGE],
        )
        try:
            self._queue.put_nowait((text, self._clock.now()))
        except queue.Full:
            self._outcomes.labels("dropped").inc()
            return False
        return True

    def _write(self, message: _EventKey, at: datetime) -> bool:
        """Write one message; returns whether it was written."""
        try:
            self._written[message] = self._repeat(message, at) or self._create(message, at)
        except ApiError as error:
            self._outcomes.labels("refused").inc()
            log.warning("an Event could not be written", reason=message.reason, error=str(error))
            return False
        self._outcomes.labels("written").inc()
        self._forget_oldest()
        return True

    def _repeat(self, message: _EventKey, at: datetime) -> _WrittenEvent | None:
        """Raise the count of the Event that has the message; None if there is none, or it is too old."""
        written = self._written.pop(message, None)
        if written is None or self._clock.monotonic() - written.at > AGGREGATED_WITHIN:
            return None
        patch = {"count": written.count + 1, "lastTimestamp": _text(at)}
        try:
            self._kube.patch(EVENTS, written.event, patch, namespace=message.namespace)
        except NotFound:
            return None
        return _WrittenEvent(written.event, written.count + 1, self._clock.monotonic())

    def _create(self, message: _EventKey, at: datetime) -> _WrittenEvent:
        event = f"{message.name[:LONGEST_NAME]}.{uuid.uuid4().hex[:16]}"
        body: dict[str, Any] = {
            "metadata": {"name": event},
            "involvedObject": {
                "kind": message.kind,
                "apiVersion": message.api_version,
                "name": message.name,
                "uid": message.uid,
                # An object without a namespace is named without one, though its Event has one.
                **({"namespace": message.namespace} if message.kind == PODS.kind else {}),
            },
            "type": message.severity,
            "reason": message.reason,
            "message": message.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": 1,
            "firstTimestamp": _text(at),
            "lastTimestamp": _text(at),
        }
        self._kube.create(EVENTS, body, namespace=message.namespace)
        return _WrittenEvent(event, 1, self._clock.monotonic())

    def _forget_oldest(self) -> None:
        while len(self._written) > MOST_REMEMBERED:
            del self._written[next(iter(self._written))]


def _text(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
