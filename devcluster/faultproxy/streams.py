"""Watches that pass through the proxy: held back, cut, and ended when their client has gone."""

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from cluster.process.clock import Clock
from devcluster.faultproxy.calls import Call
from devcluster.faultproxy.rules import Action, Cut, Stall

_CHECK_EVERY = 0.2


@dataclass(eq=False)
class Stream:
    """One running watch. ``end`` may be called by any thread."""

    call: Call
    client: socket.socket
    stop_reading: Callable[[], None]
    """Wakes the thread that reads from the API server."""
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self) -> None:
        """End it in the middle, whatever it is doing."""
        self.ended.set()
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)
        self.stop_reading()


class Gate:
    """Lets the pieces of one stream through, or not, as its action says."""

    def __init__(self, action: Action, clock: Clock, stream: Stream) -> None:
        self._clock = clock
        self._stream = stream
        self._action = action if isinstance(action, Stall | Cut) else None
        self._passed = 0

    def passes(self) -> bool:
        """Wait until the next piece may pass; False when the stream ends before it."""
        action = self._action
        if action and self._passed >= action.events:
            self._action = None
            self._clock.wait(self._stream.ended, action.seconds)
            if isinstance(action, Cut):
                self._stream.end()
        self._passed += 1
        return not self._stream.ended.is_set()


class Streams:
    """All running watches. They end soon after their client has gone, as at the API server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Stream] = set()
        self.closed = threading.Event()
        """Set when the proxy is closed."""
        self._thread = threading.Thread(target=self._notice, name="fault-proxy-streams", daemon=True)
        self._thread.start()

    def add(self, stream: Stream) -> None:
        """Count a stream as running, until ``remove``."""
        with self._lock:
            self._running.add(stream)

    def remove(self, stream: Stream) -> None:
        """Forget a stream that has ended."""
        with self._lock:
            self._running.discard(stream)

    def running(self, wanted: Callable[[Call], bool]) -> list[Stream]:
        """The running streams of the wanted calls."""
        with self._lock:
            return [stream for stream in self._running if wanted(stream.call)]

    def close(self) -> None:
        """End all streams, and the thread that watches them."""
        self.closed.set()
        self._thread.join()
        for stream in self.running(lambda _call: True):
            stream.end()

    def _notice(self) -> None:
        """End the watches of clients that have gone.

        A client sends nothing during a watch: if its connection can be read from, it has gone.
        """
        while not self.closed.wait(_CHECK_EVERY):
            streams = self.running(lambda _call: True)
            for stream in _readable(streams):
                stream.end()


def _readable(streams: list[Stream]) -> list[Stream]:
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            with suppress(ValueError, OSError):  # closed meanwhile
                selector.register(stream.client, selectors.EVENT_READ, stream)
        return [key.data for key, _ in selector.select(0)]
