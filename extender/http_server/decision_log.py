"""The last decisions, served at ``/debug/decisions`` for debugging: nothing depends on them.

It keeps the log lines about answers, even those that the log level drops.
"""

import threading
from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cluster.process.clock import Clock

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH: Final = "/debug/decisions"
SIZE: Final = 1000
"""Number of decisions kept; about 300 bytes each."""
_ENDING: Final = " answered"
"""Ending of the event of each log line about a decision."""


class DecisionLog:
    """Keeps the newest log lines about decisions. ``keep`` is a processor of structlog."""

    def __init__(self, clock: Clock, size: int = SIZE) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: deque[dict[str, Any]] = deque(maxlen=size)

    def keep(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Keep the line if it is about a decision, and pass it on unchanged."""
        if str(event.get("event", "")).endswith(_ENDING):
            line = {"time": self._clock.now().isoformat(), **event}
            with self._lock:
                self._lines.append(line)
        return event

    def lines(self) -> list[dict[str, Any]]:
        """The lines kept, newest first."""
        with self._lock:
            return list(reversed(self._lines))


def with_decision_log(app: "WSGIApplication", decision_log: DecisionLog) -> "WSGIApplication":
    """An application that also serves ``/debug/decisions``: one JSON array."""

    def switch(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH or environ["REQUEST_METHOD"] != "GET":
            return app(environ, start_response)
        body = msgspec.json.encode(decision_log.lines(), enc_hook=str)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]

    return switch
